module remoraqueue

go 1.22
