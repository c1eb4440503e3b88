package=lbzip2
program=src/lbzip2
source=src/process.c

build() {
    [ -e Makefile ] || ./configure CFLAGS='-g -O1 -D_IO_ftrylockfile -D_IO_ERR_SEEN=0x20 -D_IO_IN_BACKUP=0x100'
    make
}

# A worker puts a block into the queue of the thread that writes before it takes the lock.
plant() {
    sed -i '/^sink_write_buffer/,/^}/{
        /push(output_q, block);/d
        s|xlock(&sink_mutex);|push(output_q, block); /* mark: guilty */\n  xlock(\&sink_mutex); /* mark: error */|
    }' "$source"
}
