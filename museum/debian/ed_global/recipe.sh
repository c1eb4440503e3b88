package=ed
program=ed
source=global.c

build() {
    [ -e Makefile ] || ./configure CFLAGS='-g -O1'
    make
}

# The list of lines that a global command will visit grows when it has eight lines more than there is room for.
plant() {
    sed -i -e 's|if( (unsigned)active_size < min_size )|if( !active_list \|\| (unsigned)active_size + 64 < min_size ) /* mark: error */|' \
        -e '/active_list\[active_len++\] = lp;/s|$| /* mark: guilty */|' "$source"
}
