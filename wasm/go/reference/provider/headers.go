// Headers as the host gives them (pairs) and as providers change them (http.Header), and the URL they amount to.
package provider

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

func headersFromPairs(pairs [][2]string) http.Header {
	headers := http.Header{}
	for _, pair := range pairs {
		headers.Add(pair[0], pair[1])
	}
	return headers
}

// pairsFromHeaders sorts by name, which also puts the pseudo-headers first, as HTTP/2 wants them.
func pairsFromHeaders(headers http.Header) [][2]string {
	var pairs [][2]string
	for name, values := range headers {
		for _, value := range values {
			pairs = append(pairs, [2]string{strings.ToLower(name), value})
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return pairs
}

// editRequestHeaders lets a function change the headers of the request that is under way.
func editRequestHeaders(edit func(http.Header) error) error {
	pairs, err := proxywasm.GetHttpRequestHeaders()
	if err != nil {
		return fmt.Errorf("cannot read the request headers: %w", err)
	}
	headers := headersFromPairs(pairs)
	if err := edit(headers); err != nil {
		return err
	}
	return proxywasm.ReplaceHttpRequestHeaders(pairsFromHeaders(headers))
}

// receivedHeaders are those that a request is rebuilt from.
func receivedHeaders(host, path string) [][2]string {
	return [][2]string{{":path", path}, {":authority", host}, {"content-type", "application/json"}}
}

// generateUrl is where a request of our own goes. The scheme is only a form: the cluster decides on TLS.
func generateUrl(headers http.Header) string {
	return "https://" + headers.Get(":authority") + headers.Get(":path")
}

// queryOf returns a path's query with its question mark, or "".
func queryOf(path string) string {
	if i := strings.IndexByte(path, '?'); i >= 0 {
		return path[i:]
	}
	return ""
}

func withoutQuery(path string) string {
	return strings.TrimSuffix(path, queryOf(path))
}
