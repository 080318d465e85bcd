module meddler

go 1.24.1

require github.com/higress-group/proxy-wasm-go-sdk v0.0.0-20251103120604-77e9cce339d2

require github.com/tetratelabs/wazero v1.7.2 // indirect
