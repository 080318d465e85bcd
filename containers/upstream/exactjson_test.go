package main

import (
	"strings"
	"testing"
)

func TestEqualExact(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true},
		{`10e-1`, `1`, true},
		{`100`, `1E2`, true},
		{`0.5`, `5e-1`, true},
		{`-0`, `0.000e9`, true},
		{`1`, `-1`, false},
		{`1`, `"1"`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`9007199254740993`, `9007199254740993.0`, true},
		{`1e999999999`, `10e999999998`, true},
		{`1e99999999999999999999`, `1e99999999999999999999`, true},
		{`1e99999999999999999999`, `1e99999999999999999998`, false},
		{`{"a":1,"b":[]}`, ` {"b":[ ],"a":1.0} `, true},
		{`{"a":null}`, `{}`, false},
		{`[]`, `{}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`null`, `false`, false},
		{`"\u0061"`, `"a"`, true},
	} {
		a, errA := parseExact([]byte(c.a))
		b, errB := parseExact([]byte(c.b))
		if errA != nil || errB != nil {
			t.Fatalf("%s, %s: %v, %v", c.a, c.b, errA, errB)
		}
		if equalExact(a, b) != c.want {
			t.Errorf("%s equal to %s: got %t, want %t", c.a, c.b, !c.want, c.want)
		}
	}
}

func TestParseExactRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                  ``,
		"trailing data":            `{} {}`,
		"duplicate key":            `{"a":1,"a":1}`,
		"duplicate key inside":     `[{"a":{"b":1,"b":2}}]`,
		"duplicate key by escapes": `{"a":1,"\u0061":1}`,
		"trailing comma":           `[1,]`,
		"not UTF-8":                "\"\xff\"",
		"byte order mark":          "\ufeff{}",
		"leading zero":             `01`,
		"too deep":                 strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		if value, err := parseExact([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want an error", name, value)
		}
	}
}
