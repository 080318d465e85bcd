module upstream.example/upstream

go 1.24
