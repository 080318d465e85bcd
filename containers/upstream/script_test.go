package main

import (
	"strings"
	"testing"
)

func TestParseScriptAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           `{}`,
		"nulls":           `{"steps":null,"after":null}`,
		"all of it":       `{"steps":[{"name":"a","match":{"method":"POST","path":"/v1","headers":{"X-A":"b"},"bearer_in":["k"],"bearer_differs_from_previous":true,"json_body":null},"respond":{"status":200,"headers":[["content-type","a/b"],["x","1"],["x","2"]],"json_body":{"steps":1},"delay_ms":60000},"otherwise":{"status":599,"body_base64":"AAE="}}],"after":{"status":500}}`,
		"actions":         `{"steps":[{"name":"a","respond":{"action":"close"}},{"name":"b","respond":{"action":"hang","status":200,"delay_ms":1}}]}`,
		"free json_body":  `{"after":{"status":200,"json_body":{"any":{"field":[{"x":1}]}}}}`,
		"no content":      `{"after":{"status":204}}`,
		"null match":      `{"steps":[{"name":"a","match":null,"respond":{"status":200},"otherwise":null}]}`,
		"empty body":      `{"after":{"status":200,"body_base64":""}}`,
		"content headers": `{"after":{"status":200,"headers":[["date","x"],["connection","close"]]}}`,
	} {
		if _, err := parseScript([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseScriptRefuses(t *testing.T) {
	step := func(fields string) string { return `{"steps":[{"name":"a",` + fields + `}]}` }
	match := func(fields string) string { return step(`"match":{` + fields + `},"respond":{"status":200}`) }
	after := func(fields string) string { return `{"after":{` + fields + `}}` }
	for _, c := range []struct{ script, want string }{
		{``, `not usable JSON`},
		{`[]`, `not a JSON object`},
		{`null`, `not a JSON object`},
		{`{} x`, `not usable JSON`},
		{`{"after":{"status":200,"status":201}}`, `the key "status" is there twice`},
		{`{"step":[]}`, `script has an unknown field "step"; expected after, steps`},
		{`{"Steps":[]}`, `unknown field "Steps"`},
		{step(`"respond":{"status":200,"body":1}`), `script.steps[0].respond has an unknown field "body"`},
		{match(`"jsonbody":1`), `script.steps[0].match has an unknown field "jsonbody"`},
		{`{"steps":{}}`, `script.steps is a JSON object`},
		{after(`"status":"200"`), `script.after.status is a JSON string; expected int`},
		{after(`"status":99`), `status is 99; expected 200 to 599`},
		{after(`"status":103`), `status is 103; expected 200 to 599`},
		{after(`"status":600`), `status is 600`},
		{after(`"json_body":1`), `status is 0`},
		{after(`"status":200,"delay_ms":-1`), `delay_ms is -1`},
		{after(`"status":200,"delay_ms":60001`), `delay_ms is 60001`},
		{after(`"status":200,"json_body":null,"body_base64":""`), `json_body and body_base64`},
		{after(`"status":200,"body_base64":"?"`), `not standard base64`},
		{after(`"status":204,"json_body":1`), `HTTP forbids it`},
		{after(`"status":200,"headers":[["a"]]`), `headers[0] has 1 elements`},
		{after(`"status":200,"headers":[["a","b","c"]]`), `headers[0] has 3 elements`},
		{after(`"status":200,"headers":[["a","b\r\nc: d"]]`), `expected no control characters`},
		{after(`"status":200,"headers":[["a\r\n","b"]]`), `expected an HTTP header name`},
		{after(`"status":200,"headers":[["a"," b"]]`), `outer spaces`},
		{after(`"status":200,"headers":[["Content-Length","1"]]`), `content-length, which the upstream computes`},
		{after(`"action":"explode"`), `action is "explode"`},
		{after(`"action":"close","json_body":1`), `expected none, since nothing is answered`},
		{step(`"match":{}`), `respond is missing`},
		{`{"steps":[{"respond":{"status":200}}]}`, `name is ""`},
		{`{"steps":[{"name":"after","respond":{"status":200}}]}`, `name is "after"`},
		{`{"steps":[{"name":"a","respond":{"status":200}},{"name":"a","respond":{"status":200}}]}`, `script.steps[1].name is "a"`},
		{match(`"bearer_in":[]`), `could never hold`},
		{match(`"json_body":1,"body_base64":""`), `json_body and body_base64`},
		{match(`"headers":{"a":"1","A":"2"}`), `two spellings`},
		{match(`"headers":{"a b":"1"}`), `expected an HTTP header name`},
	} {
		_, err := parseScript([]byte(c.script))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", c.script, err, c.want)
		}
	}
}
