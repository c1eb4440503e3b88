package=mktorrent
program=mktorrent
source=hash_pthreads.c

build() {
    make USE_PTHREADS=1 CFLAGS='-g -O1'
}

# A worker reads the head of the list of free buffers before it takes the lock under which it puts its own in front.
plant() {
    sed -i '/^static void put_free/,/^}/{
        /p->next = q->free;/d
        s|^{|{\n\tp->next = q->free; /* mark: error */|
        s|q->free = p;|q->free = p; /* mark: guilty */|
    }' "$source"
}
