package=bzip2
program=bzip2
source=bzip2.c

build() {
    make bzip2 CFLAGS='-g -O0'
}

# A name is ended once more, behind the block that holds it.
plant() {
    sed -i '/strcpy ( tmp->name, name );/{
        n
        i\      tmp->name[5 + strlen(name)] = 0; /* mark: guilty */
    }' "$source"
}
