#!/bin/sh -eu
# The interpreter gets the one argument of the `#!` line: here, stop at the first failure.
#@ args: x
echo "options: $(echo $- | tr -d -c eu)"
echo "first argument: $1"
false
echo "never reached"
