package main

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestUnmet(t *testing.T) {
	base := observed{
		method: "POST", target: "/v1/videos?trace=1", host: "api.example",
		headers:     []headerPair{{"x-a", "1"}, {"x-a", "2"}},
		bearer:      "dummy-key-a",
		bearerIsNew: true,
		body:        []byte(`{"model":"m","n":1}`), wholeBody: true,
	}
	with := func(change func(*observed)) observed {
		changed := base
		change(&changed)
		return changed
	}
	for _, c := range []struct {
		name, match string
		observed    observed
		unmet       []string
	}{
		{"nothing asked", `{}`, base, nil},
		{"all held", `{"method":"POST","path":"/v1/videos?trace=1","headers":{"X-A":"1","host":"api.example"},"bearer_in":["dummy-key-a"],"bearer_differs_from_previous":true,"json_body":{"n":1.0,"model":"m"}}`, base, nil},
		{"method", `{"method":"GET"}`, base, []string{"method"}},
		{"method is case-sensitive", `{"method":"post"}`, base, []string{"method"}},
		{"empty method is asked for", `{"method":""}`, base, []string{"method"}},
		{"path without query", `{"path":"/v1/videos"}`, base, []string{"path"}},
		{"second value of a header", `{"headers":{"x-a":"2"}}`, base, []string{"headers.x-a"}},
		{"absent header", `{"headers":{"x-b":""}}`, base, []string{"headers.x-b"}},
		{"foreign bearer", `{"bearer_in":["dummy-key-b"]}`, base, []string{"bearer_in"}},
		{"no bearer", `{"bearer_in":[""],"bearer_differs_from_previous":true}`,
			with(func(o *observed) { o.bearer = "" }), []string{"bearer_in", "bearer_differs_from_previous"}},
		{"bearer again", `{"bearer_differs_from_previous":true}`,
			with(func(o *observed) { o.bearerIsNew = false }), []string{"bearer_differs_from_previous"}},
		{"bearer again, not asked", `{"bearer_differs_from_previous":false}`,
			with(func(o *observed) { o.bearerIsNew = false }), nil},
		{"another body", `{"json_body":{"model":"m","n":2}}`, base, []string{"json_body"}},
		{"body with a duplicate key", `{"json_body":{"model":"m","n":1}}`,
			with(func(o *observed) { o.body = []byte(`{"model":"x","model":"m","n":1}`) }), []string{"json_body"}},
		{"body with trailing data", `{"json_body":{"model":"m","n":1}}`,
			with(func(o *observed) { o.body = append(slices.Clone(o.body), '0') }), []string{"json_body"}},
		{"truncated body", `{"json_body":{"model":"m","n":1}}`,
			with(func(o *observed) { o.wholeBody = false }), []string{"json_body"}},
		{"null is a value", `{"json_body":null}`, base, []string{"json_body"}},
		{"null held", `{"json_body":null}`, with(func(o *observed) { o.body = []byte("null") }), nil},
		{"exact bytes", `{"body_base64":"eyJtb2RlbCI6Im0iLCJuIjoxfQ=="}`, base, nil},
		{"other bytes", `{"body_base64":""}`, base, []string{"body_base64"}},
		{"several, in order", `{"json_body":1,"path":"/","method":"GET","headers":{"b":"","a":""}}`, base,
			[]string{"method", "path", "headers.a", "headers.b", "json_body"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			match := &Match{}
			if err := json.Unmarshal([]byte(c.match), match); err != nil {
				t.Fatal(err)
			}
			if err := match.prepare("match"); err != nil {
				t.Fatal(err)
			}
			if got := match.unmet(c.observed); !slices.Equal(got, c.unmet) {
				t.Errorf("got %q, want %q", got, c.unmet)
			}
		})
	}
}

func TestBearerOf(t *testing.T) {
	for _, c := range []struct {
		authorization []string
		want          string
	}{
		{nil, ""},
		{[]string{"Bearer a"}, "a"},
		{[]string{"bearer  a"}, "a"},
		{[]string{"Basic a"}, ""},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer a", "Bearer b"}, ""},
	} {
		if got := bearerOf(c.authorization); got != c.want {
			t.Errorf("%q: got %q, want %q", c.authorization, got, c.want)
		}
	}
}
