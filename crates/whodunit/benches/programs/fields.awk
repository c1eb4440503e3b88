# Field splitting, sums by key and string building.
{
    for (i = 1; i <= NF; i++) {
        bytes[$i] += length($i)
        if ($i ~ /^[a-m].*e[.,]?$/) matched++
    }
    key = $1 "-" NF
    lines[key]++
    total += NF * NR % 7
}
END {
    for (key in lines) if (lines[key] > most) most = lines[key]
    print matched, total, most, length(bytes), length(lines)
}
