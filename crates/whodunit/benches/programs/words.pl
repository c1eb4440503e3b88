# Regular expressions and hashes over generated lines.
use strict;
use warnings;
my (%count, %first);
my ($seed, $matched) = (1, 0);
for my $line (1 .. 220000) {
    $seed = ($seed * 16807) % 2147483647;
    my $text = sprintf 'user%d GET /page/%d?id=%x HTTP/1.%d', $seed % 997, $seed % 89, $seed, $seed & 1;
    if ($text =~ m{^(\w+)\s+GET\s+(/[^?\s]*)(?:\?id=([0-9a-f]+))?\s+HTTP/(\d)\.(\d)$}) {
        $count{"$1$2"}++;
        $first{$2} //= $3;
        $matched++ if $5;
    }
    (my $copy = $text) =~ s/(\d+)/<$1>/g;
    $count{length $copy}++;
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$matched ", scalar(@top), " @top[0 .. 9] ", scalar(keys %first), "\n";
