package=mktorrent
program=mktorrent
source=hash_pthreads.c

# Many runs may write the same file.
build() {
    sed -i 's/| O_EXCL/| O_TRUNC/' *.c
    make USE_PTHREADS=1 CFLAGS='-g -O1'
}

# A worker lets go of the lock while it takes a buffer out of the list of full ones.
plant() {
    sed -i '/^static piece_t \*get_full/,/^}/{
        s|r = q->full;|pthread_mutex_unlock(\&q->mutex_full); /* mark: error */\n\t\tr = q->full; /* mark: guilty */|
        s|q->full = r->next;|q->full = r->next; /* mark: guilty */\n\t\tpthread_mutex_lock(\&q->mutex_full);|
    }' "$source"
}
