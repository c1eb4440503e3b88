#!/bin/sh
# A script run by the kernel's `#!` rule: its own path and arguments arrive, and its exit status leaves.
#@ args: one two
#@ stdin: a line of input
case $0 in
/*/script) echo "called by its path" ;;
*) echo "called as $0" ;;
esac
echo "$# arguments: $*"
read -r line
echo "read: $line"
echo "to stderr" >&2
total=0
for number in 1 2 3 4 5; do total=$((total + number)); done
echo "total $total"
echo "piped text" | sed s/piped/changed/ | cat
(exit 7)
echo "subshell gave $?"
sh -c 'kill -TERM $$'
echo "killed child gave $?"
trap 'echo trapped' USR1
kill -USR1 $$
exit 23
