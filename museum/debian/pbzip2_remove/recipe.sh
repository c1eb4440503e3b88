package=pbzip2
program=pbzip2
source=pbzip2.cpp

build() {
    make pbzip2 CXXFLAGS='-g -O1 -pthread -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64'
}

# A consumer lets go of the lock while it takes a block out of the queue.
plant() {
    sed -i '/^void \*consumer /,/^}/{
        s|if (!fifo->empty && (fifo->remove(fileData) == 1))|bool is_taken = false;\
\t\t\tif (!fifo->empty)\
\t\t\t{\
\t\t\t\tsafe_mutex_unlock(fifo->mut); /* mark: error */\
\t\t\t\tis_taken = fifo->remove(fileData) == 1; /* mark: guilty */\
\t\t\t\tsafe_mutex_lock(fifo->mut);\
\t\t\t}\
\t\t\tif (is_taken)|
    }' "$source"
}
