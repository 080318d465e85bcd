package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of the control port.
const (
	maxScriptBytes = 64 << 20
	defaultSettle  = time.Second
	maxSettle      = 30 * time.Second
)

// controlPort is where the testbed installs scripts and reads the journal.
type controlPort struct {
	journal   *Journal
	log       *eventLog
	listeners string                         // the file that PUT /listeners replaces; empty for none
	routes    map[string]map[string]endpoint // path to method to endpoint
}

// endpoint returns what to reply with status 200, or why not.
type endpoint func(*http.Request) (any, error)

// problem is an error with the HTTP status that tells it.
type problem struct {
	status   int
	sentence string
}

func (p problem) Error() string { return p.sentence }

func newControlServer(ctx context.Context, journal *Journal, events *eventLog, listeners string) *http.Server {
	port := &controlPort{journal: journal, log: events, listeners: listeners}
	port.routes = map[string]map[string]endpoint{
		"/script":    {http.MethodPut: port.putScript},
		"/reset":     {http.MethodPost: port.postReset},
		"/journal":   {http.MethodGet: port.getJournal},
		"/counts":    {http.MethodGet: port.getCounts},
		"/healthz":   {http.MethodGet: port.getHealthz},
		"/listeners": {http.MethodPut: port.putListeners},
	}
	return &http.Server{
		Handler:                      port,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  2 * maxSettle, // also ends a reader's wait, so above maxSettle
		WriteTimeout:                 4 * maxSettle,
		IdleTimeout:                  time.Hour, // a run's client stays connected
		MaxHeaderBytes:               maxHeaderBytes,
		Protocols:                    onlyHTTP1(),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ErrorLog:                     log.New(events, "", 0),
	}
}

// ServeHTTP finds the endpoint, and replies with JSON whatever happens.
func (p *controlPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	value, err := p.route(w, r)
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		var known problem
		if errors.As(err, &known) {
			status = known.status
		}
		value = map[string]string{"error": err.Error()}
	}
	if r.URL.Path != "/healthz" || err != nil {
		p.log.event("control - %s %q %d epoch=%d", r.Method, r.RequestURI, status, p.journal.counts().Epoch)
	}
	reply(w, status, value)
}

func (p *controlPort) route(w http.ResponseWriter, r *http.Request) (any, error) {
	methods, known := p.routes[r.URL.Path]
	if !known {
		return nil, problem{http.StatusNotFound, fmt.Sprintf("%q is not a control path; expected one of %s",
			r.URL.Path, strings.Join(slices.Sorted(maps.Keys(p.routes)), ", "))}
	}
	endpoint, known := methods[r.Method]
	if !known {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		w.Header().Set("Allow", allowed)
		return nil, problem{http.StatusMethodNotAllowed, fmt.Sprintf("%s does not take %s; expected %s", r.URL.Path, r.Method, allowed)}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxScriptBytes)
	return endpoint(r)
}

func reply(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // only for types that JSON cannot hold
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that left needs no answer
}

// epochReply answers what began an epoch.
type epochReply struct {
	Epoch uint64 `json:"epoch"`
}

func (p *controlPort) putScript(r *http.Request) (any, error) {
	data, err := allOf(r)
	if err != nil {
		return nil, err
	}
	script, err := parseScript(data)
	if err != nil {
		return nil, problem{http.StatusBadRequest, err.Error()}
	}
	return epochReply{p.journal.install(script)}, nil
}

// putListeners replaces the gateway's file of listeners by renaming, the only
// change to it that Envoy follows.
func (p *controlPort) putListeners(r *http.Request) (any, error) {
	if p.listeners == "" {
		return nil, problem{http.StatusConflict, "there is no file of listeners; expected serve --listeners FILE; start it with that option"}
	}
	data, err := allOf(r)
	if err != nil {
		return nil, err
	}
	draft := p.listeners + ".next"
	if err := os.WriteFile(draft, data, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(draft, p.listeners); err != nil {
		return nil, err
	}
	return map[string]int{"bytes": len(data)}, nil
}

func (p *controlPort) postReset(r *http.Request) (any, error) {
	data, err := allOf(r)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && string(trimmed) != "{}" {
		return nil, problem{http.StatusBadRequest, "POST /reset has a body; expected none; a script is installed with PUT /script"}
	}
	return epochReply{p.journal.reset()}, nil
}

// allOf reads a body, so that every refusal leaves the connection usable.
func allOf(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes; expected a shorter script", maxScriptBytes)}
	case err != nil:
		return nil, problem{http.StatusBadRequest, fmt.Sprintf("the body could not be read: %s", err)}
	}
	return data, nil
}

func (p *controlPort) getJournal(r *http.Request) (any, error) {
	query, err := queryOf(r.URL, "epoch", "settle_ms")
	if err != nil {
		return nil, err
	}
	var asked *uint64
	if text, given := query["epoch"]; given {
		epoch, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, problem{http.StatusBadRequest, fmt.Sprintf("epoch is %q; expected the number that PUT /script or POST /reset replied", text)}
		}
		asked = &epoch
	}
	settle := defaultSettle
	if text, given := query["settle_ms"]; given {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || ms > maxSettle.Milliseconds() {
			return nil, problem{http.StatusBadRequest, fmt.Sprintf("settle_ms is %q; expected 0 to %d milliseconds", text, maxSettle.Milliseconds())}
		}
		settle = time.Duration(ms) * time.Millisecond
	}
	report, err := p.journal.read(r.Context(), asked, settle)
	if err != nil {
		return nil, problem{http.StatusConflict, err.Error()}
	}
	return report, nil
}

// queryOf reads a query whose names must be among known, each at most once.
func queryOf(target *url.URL, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(target.RawQuery)
	if err != nil {
		return nil, problem{http.StatusBadRequest, fmt.Sprintf("the query cannot be read: %s", err)}
	}
	query := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) || len(values[name]) != 1 {
			return nil, problem{http.StatusBadRequest, fmt.Sprintf("the query has %q (%d times); expected only %s, once each", name, len(values[name]), strings.Join(known, ", "))}
		}
		query[name] = values[name][0]
	}
	return query, nil
}

func (p *controlPort) getCounts(*http.Request) (any, error) { return p.journal.counts(), nil }

func (p *controlPort) getHealthz(*http.Request) (any, error) {
	return map[string]string{"status": "ok"}, nil
}
