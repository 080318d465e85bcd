// Headers as the host gives them (pairs) and as providers change them (http.Header), and the URL they amount to.
package provider

import (
	"net/http"
	"sort"
	"strings"
)

func headersFromPairs(pairs [][2]string) http.Header {
	headers := make(http.Header, len(pairs))
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
	sort.SliceStable(pairs, func(i, j int) bool { return pairs[i][0] < pairs[j][0] })
	return pairs
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
