package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Script says how the attempts of an epoch are answered: the i-th attempt, in
// the order in which headers arrived, by the i-th step, all further ones by
// After.
type Script struct {
	Steps []Step    `json:"steps"`
	After *Response `json:"after"` // nil: 500, "unexpected attempt"
}

// Step answers one attempt: with Respond when Match holds, else with Otherwise.
type Step struct {
	Name      string    `json:"name"`
	Match     *Match    `json:"match"` // nil: anything matches
	Respond   *Response `json:"respond"`
	Otherwise *Response `json:"otherwise"` // nil: 400, naming what was unmet
}

// Match is what an attempt must have. Every field is optional; all that are
// given must hold.
type Match struct {
	Method                    *string           `json:"method"`
	Path                      *string           `json:"path"`    // the request-target as sent, with its query
	Headers                   map[string]string `json:"headers"` // name to its first value
	BearerIn                  []string          `json:"bearer_in"`
	BearerDiffersFromPrevious bool              `json:"bearer_differs_from_previous"`
	JSONBody                  json.RawMessage   `json:"json_body"` // `null` is a value like any other
	BodyBase64                *string           `json:"body_base64"`

	jsonBody any    // JSONBody as parseExact reads it
	body     []byte // BodyBase64, decoded
}

// Response is one answer.
type Response struct {
	Status     int             `json:"status"`  // 200 to 599; not needed with an action
	Headers    [][]string      `json:"headers"` // pairs of name and value
	JSONBody   json.RawMessage `json:"json_body"`
	BodyBase64 *string         `json:"body_base64"`
	DelayMS    int             `json:"delay_ms"` // milliseconds before the answer or action, 0 to 60000
	Action     string          `json:"action"`

	body []byte // what is sent: JSONBody compacted, or BodyBase64 decoded
}

// The actions that take the place of an answer.
const (
	actionClose = "close" // close the connection without answering
	actionHang  = "hang"  // never answer, until the client goes away
)

// afterName stands in the journal for attempts beyond the steps.
const afterName = "after"

// streams says that the answer is a stream of events.
func (r *Response) streams() bool {
	return len(r.body) > 0 && slices.ContainsFunc(r.Headers, func(pair []string) bool {
		return strings.EqualFold(pair[0], "content-type") && strings.HasPrefix(pair[1], "text/event-stream")
	})
}

func (r *Response) delay() time.Duration { return time.Duration(r.DelayMS) * time.Millisecond }

// emptyScript is in force until the first PUT /script.
func emptyScript() *Script { return &Script{After: unexpected()} }

func unexpected() *Response {
	return jsonResponse(500, map[string]string{"error": "unexpected attempt"})
}

// unmatched is the answer to an attempt whose step has no `otherwise`.
func unmatched(step string, unmet []string) *Response {
	return jsonResponse(400, struct {
		Error string   `json:"error"`
		Step  string   `json:"step"`
		Unmet []string `json:"unmet"`
	}{"attempt did not match", step, unmet})
}

func jsonResponse(status int, value any) *Response {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // only for types that JSON cannot hold
	}
	return &Response{Status: status, Headers: [][]string{{"content-type", "application/json"}}, body: body}
}

// parseScript reads and checks a script. Its errors are sentences for whoever
// wrote it, and begin with the place: script.steps[1].respond.status.
func parseScript(data []byte) (*Script, error) {
	tree, err := parseExact(data)
	if err != nil {
		return nil, fmt.Errorf("the script is not usable JSON: %w", err)
	}
	// encoding/json would take "Status" for status: names are checked exactly.
	if err := scriptShape.check("script", tree); err != nil {
		return nil, err
	}
	script := &Script{}
	if err := json.Unmarshal(data, script); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("script.%s is a JSON %s; expected %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return nil, fmt.Errorf("the script cannot be read: %w", err)
	}
	if err := script.prepare(); err != nil {
		return nil, err
	}
	return script, nil
}

// shape is where an object's field names are fixed. A nil shape is any value.
type shape struct {
	each   *shape            // of an array: its elements
	fields map[string]*shape // of an object: its fields
}

var responseShape = &shape{fields: map[string]*shape{
	"status": nil, "headers": nil, "json_body": nil, "body_base64": nil, "delay_ms": nil, "action": nil,
}}

var scriptShape = &shape{fields: map[string]*shape{
	"steps": {each: &shape{fields: map[string]*shape{
		"name": nil,
		"match": {fields: map[string]*shape{
			"method": nil, "path": nil, "headers": nil, "bearer_in": nil,
			"bearer_differs_from_previous": nil, "json_body": nil, "body_base64": nil,
		}},
		"respond":   responseShape,
		"otherwise": responseShape,
	}}},
	"after": responseShape,
}}

// check finds unknown fields. Values of the wrong type, null apart, are left
// to the decoder, save the script itself, which must be an object.
func (s *shape) check(path string, value any) error {
	if s == nil {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			inner, known := s.fields[name]
			if !known && s.fields != nil {
				return fmt.Errorf("%s has an unknown field %q; expected %s", path, name,
					strings.Join(slices.Sorted(maps.Keys(s.fields)), ", "))
			}
			if err := inner.check(path+"."+name, value[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i, element := range value {
			if err := s.each.check(fmt.Sprintf("%s[%d]", path, i), element); err != nil {
				return err
			}
		}
	}
	if s == scriptShape {
		return fmt.Errorf("the script is not a JSON object; expected {\"steps\": [...], \"after\": {...}}")
	}
	return nil
}

// prepare checks the script and decodes what answering needs.
func (s *Script) prepare() error {
	names := map[string]bool{afterName: true}
	for i := range s.Steps {
		step, path := &s.Steps[i], fmt.Sprintf("script.steps[%d]", i)
		if step.Name == "" || names[step.Name] {
			return fmt.Errorf("%s.name is %q; expected a name that is not empty, not %q and not another step's", path, step.Name, afterName)
		}
		names[step.Name] = true
		if step.Respond == nil {
			return fmt.Errorf("%s.respond is missing; expected the answer to an attempt that matches", path)
		}
		if err := errors.Join(
			step.Match.prepare(path+".match"),
			step.Respond.prepare(path+".respond"),
			step.Otherwise.prepare(path+".otherwise"),
		); err != nil {
			return firstOf(err)
		}
	}
	if s.After == nil {
		s.After = unexpected()
		return nil
	}
	return s.After.prepare("script.after")
}

// firstOf keeps the first line of joined errors: one sentence at a time.
func firstOf(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(first)
}

func (m *Match) prepare(path string) error {
	if m == nil {
		return nil
	}
	if m.BearerIn != nil && len(m.BearerIn) == 0 {
		return fmt.Errorf("%s.bearer_in is empty and could never hold; expected at least one token, or leave it out", path)
	}
	if m.JSONBody != nil && m.BodyBase64 != nil {
		return fmt.Errorf("%s has json_body and body_base64; expected one of them", path)
	}
	var err error
	if m.JSONBody != nil {
		if m.jsonBody, err = parseExact(m.JSONBody); err != nil {
			return fmt.Errorf("%s.json_body is not usable JSON: %w", path, err)
		}
	}
	if m.body, err = decodeBase64(path, m.BodyBase64); err != nil {
		return err
	}
	lower := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if err := checkHeader(path+".headers", name, m.Headers[name]); err != nil {
			return err
		}
		if _, twice := lower[strings.ToLower(name)]; twice {
			return fmt.Errorf("%s.headers has %q in two spellings; expected each name once", path, name)
		}
		lower[strings.ToLower(name)] = m.Headers[name]
	}
	m.Headers = lower
	return nil
}

func (r *Response) prepare(path string) error {
	if r == nil {
		return nil
	}
	switch r.Action {
	case "":
	case actionClose, actionHang:
		if r.JSONBody != nil || r.BodyBase64 != nil || len(r.Headers) > 0 {
			return fmt.Errorf("%s has the action %q and headers or a body; expected none, since nothing is answered", path, r.Action)
		}
	default:
		return fmt.Errorf("%s.action is %q; expected \"\", %q or %q", path, r.Action, actionClose, actionHang)
	}
	if (r.Status != 0 || r.Action == "") && (r.Status < 200 || r.Status > 599) {
		return fmt.Errorf("%s.status is %d; expected 200 to 599", path, r.Status)
	}
	if r.DelayMS < 0 || r.DelayMS > 60000 {
		return fmt.Errorf("%s.delay_ms is %d; expected 0 to 60000 milliseconds", path, r.DelayMS)
	}
	for i, pair := range r.Headers {
		if err := checkAnswerHeader(fmt.Sprintf("%s.headers[%d]", path, i), pair); err != nil {
			return err
		}
	}
	return r.prepareBody(path)
}

func (r *Response) prepareBody(path string) error {
	if r.JSONBody != nil && r.BodyBase64 != nil {
		return fmt.Errorf("%s has json_body and body_base64; expected one of them", path)
	}
	var err error
	if r.body, err = decodeBase64(path, r.BodyBase64); err != nil {
		return err
	}
	if r.JSONBody != nil {
		var compact bytes.Buffer // keeps the order of keys and the spelling of numbers
		if err := json.Compact(&compact, r.JSONBody); err != nil {
			return fmt.Errorf("%s.json_body is not usable JSON: %w", path, err)
		}
		r.body = compact.Bytes()
	}
	if len(r.body) > 0 && (r.Status == 204 || r.Status == 304) {
		return fmt.Errorf("%s has the status %d and a body; expected none, since HTTP forbids it", path, r.Status)
	}
	return nil
}

func decodeBase64(path string, text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, fmt.Errorf("%s.body_base64 is not standard base64 with padding: %w", path, err)
	}
	return data, nil
}

func checkAnswerHeader(path string, pair []string) error {
	if len(pair) != 2 {
		return fmt.Errorf("%s has %d elements; expected [name, value]", path, len(pair))
	}
	switch name := strings.ToLower(pair[0]); name {
	case "content-length", "transfer-encoding", "trailer":
		return fmt.Errorf("%s sets %s, which the upstream computes itself; leave it out", path, name)
	}
	return checkHeader(path, pair[0], pair[1])
}

// checkHeader accepts what can be sent and read back unchanged: a token as
// name (RFC 9110, 5.6.2), a value without control characters or outer spaces.
func checkHeader(path, name, value string) error {
	const tokenMarks = "!#$%&'*+-.^_`|~"
	isToken := name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		isLetterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !isLetterOrDigit && !strings.ContainsRune(tokenMarks, c)
	})
	if !isToken {
		return fmt.Errorf("%s has the name %q; expected an HTTP header name", path, name)
	}
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	if strings.ContainsFunc(value, isControl) || strings.Trim(value, " \t") != value {
		return fmt.Errorf("%s has the value %q; expected no control characters and no outer spaces", path, value)
	}
	return nil
}
