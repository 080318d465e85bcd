package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// headerPair is one header: name (lower-case in journals) and value.
type headerPair = [2]string

// observed is what a Match looks at: one attempt, read to its end.
type observed struct {
	method      string
	target      string       // the request-target as sent
	host        string       // matched by the header name "host"
	headers     []headerPair // names lower-case
	bearer      string       // "" when there is none
	bearerIsNew bool         // no earlier attempt of the epoch carried it
	body        []byte
	wholeBody   bool // body is all that was sent
}

// unmet names the fields of m that o does not satisfy, in a fixed order; a
// header as "headers.NAME". It is empty, not nil, when all hold.
func (m *Match) unmet(o observed) []string {
	names := []string{}
	if m == nil {
		return names
	}
	require := func(name string, holds bool) {
		if !holds {
			names = append(names, name)
		}
	}
	require("method", m.Method == nil || *m.Method == o.method)
	require("path", m.Path == nil || *m.Path == o.target)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		value, present := o.firstHeader(name)
		require("headers."+name, present && value == m.Headers[name])
	}
	require("bearer_in", m.BearerIn == nil || o.bearer != "" && slices.Contains(m.BearerIn, o.bearer))
	require("bearer_differs_from_previous", !m.BearerDiffersFromPrevious || o.bearer != "" && o.bearerIsNew)
	require("json_body", m.JSONBody == nil || o.wholeBody && isJSON(o.body, m.jsonBody))
	require("body_base64", m.BodyBase64 == nil || o.wholeBody && bytes.Equal(o.body, m.body))
	return names
}

func isJSON(body []byte, want any) bool {
	value, err := parseExact(body)
	return err == nil && equalExact(value, want)
}

func (o observed) firstHeader(name string) (value string, present bool) {
	if name == "host" {
		return o.host, true
	}
	for _, pair := range o.headers {
		if pair[0] == name {
			return pair[1], true
		}
	}
	return "", false
}

// bearerOf returns the token of `Authorization: Bearer TOKEN`, or "" when
// there is none, or more than one Authorization header: which of them a
// provider would take is not ours to guess.
func bearerOf(authorization []string) string {
	if len(authorization) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
