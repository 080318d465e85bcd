"""Go as a tool: the toolchain, its version, packages, vet and gofmt, and rewriting Go."""
