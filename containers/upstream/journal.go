package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxAttempts bounds the journal of one epoch; further attempts are answered
// 507 and counted as dropped.
const maxAttempts = 10_000

// Attempt is one request that reached the model port.
type Attempt struct {
	Order          int          `json:"order"`    // from 1 in its epoch, as headers arrived
	Sequence       uint64       `json:"sequence"` // from 1 since the process started
	Epoch          uint64       `json:"epoch"`
	ReceivedAt     string       `json:"received_at"`      // RFC 3339, UTC: headers complete
	ReceivedMonoNS int64        `json:"received_mono_ns"` // nanoseconds since the process started
	Method         string       `json:"method"`
	Target         string       `json:"target"` // the request-target as sent: path and query
	Host           string       `json:"host"`
	Proto          string       `json:"proto"`
	Headers        []headerPair `json:"headers"` // sorted by lower-case name, repeated ones as they came
	Body           []byte       `json:"body_base64"`
	BodyBytes      int64        `json:"body_bytes"`      // of the whole body, kept or not
	BodySHA256     string       `json:"body_sha256"`     // of the whole body; "" when its end was not seen
	Truncated      bool         `json:"truncated"`       // Body is not the whole body
	Trailing       []byte       `json:"trailing_base64"` // what followed the body on the connection
	ArrivedOn      string       `json:"arrived_on"`      // local address of the connection
	From           string       `json:"from"`
	Step           string       `json:"step"` // "after" beyond the steps
	Matched        bool         `json:"matched"`
	Unmet          []string     `json:"unmet"`
	Answered       *Answer      `json:"answered"`         // null while in flight
	AnsweredMonoNS int64        `json:"answered_mono_ns"` // 0 while in flight
	Error          string       `json:"error,omitempty"`  // why the exchange broke off
}

// Answer is what was sent back. Status is 0 when nothing was.
type Answer struct {
	Status  int          `json:"status"`
	Headers []headerPair `json:"headers"` // as declared, and content-length
	Body    []byte       `json:"body_base64"`
	Action  string       `json:"action"`
}

// Counts are totals over an epoch or over the process's life.
type Counts struct {
	Attempts  uint64 `json:"attempts"`
	Matched   uint64 `json:"matched"`
	Unmatched uint64 `json:"unmatched"` // answered, and no step's match held
	Dropped   uint64 `json:"dropped"`   // beyond maxAttempts: not in the journal
	Malformed uint64 `json:"malformed"` // bytes arrived that were no HTTP/1 request
}

// Report is what GET /journal replies.
type Report struct {
	Epoch     uint64    `json:"epoch"`
	InFlight  int       `json:"in_flight"` // requests of any epoch not yet answered
	Complete  bool      `json:"complete"`
	Dropped   uint64    `json:"dropped"`
	Malformed uint64    `json:"malformed"`
	Late      []Attempt `json:"late"` // of an older epoch, ended in this one
	Attempts  []Attempt `json:"attempts"`
}

// CountsReport is what GET /counts replies.
type CountsReport struct {
	Epoch      uint64 `json:"epoch"`
	InFlight   int    `json:"in_flight"`
	SinceStart Counts `json:"since_start"`
	InEpoch    Counts `json:"in_epoch"`
}

// Journal records attempts by epoch and hands each the step that answers it.
// One mutex orders everything. A request passes through it as
//
//	arrive -> begin -> update* -> finish
//	arrive -> begin (dropped)
//	arrive -> lose
//
// and is in flight from arrive until the last of these.
type Journal struct {
	started time.Time

	mu       sync.Mutex
	script   *Script
	epoch    uint64
	sequence uint64
	inFlight int
	idle     chan struct{} // closed when inFlight falls to 0, then replaced
	attempts []*Attempt
	late     []*Attempt
	bearers  map[string]bool // tokens seen in this epoch
	total    Counts
	current  Counts
}

func newJournal() *Journal {
	return &Journal{
		started: time.Now(),
		script:  emptyScript(),
		idle:    make(chan struct{}),
		bearers: map[string]bool{},
	}
}

// install puts script in force and begins an epoch, whose number it returns.
func (j *Journal) install(script *Script) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.script = script
	return j.nextEpoch()
}

// reset begins an epoch under the same script.
func (j *Journal) reset() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nextEpoch()
}

func (j *Journal) nextEpoch() uint64 {
	j.epoch++
	j.attempts, j.late, j.current = nil, nil, Counts{}
	j.bearers = map[string]bool{}
	return j.epoch
}

// arrive notes that a request has begun to arrive, and in which epoch.
func (j *Journal) arrive() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inFlight++
	return j.epoch
}

// lose ends an arrival that turned out to be no HTTP/1 request.
func (j *Journal) lose(epoch uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.total.Malformed++
	if epoch == j.epoch {
		j.current.Malformed++
	}
	j.land()
}

// land takes one request out of flight. The caller holds the mutex.
func (j *Journal) land() {
	j.inFlight--
	if j.inFlight == 0 {
		close(j.idle)
		j.idle = make(chan struct{})
	}
}

// begun is an attempt with what its epoch says about it.
type begun struct {
	attempt     *Attempt // read and written through update and finish only
	step        *Step    // nil: beyond the steps
	after       *Response
	bearerIsNew bool
}

// begin gives an arrived attempt its place: sequence, epoch, order, times and
// step. It returns nil when the epoch's journal is full; the attempt is then
// no longer in flight.
func (j *Journal) begin(attempt Attempt, bearer string) *begun {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	j.sequence++
	j.total.Attempts++
	j.current.Attempts++
	if len(j.attempts) >= maxAttempts {
		j.total.Dropped++
		j.current.Dropped++
		j.land()
		return nil
	}
	attempt.Sequence, attempt.Epoch, attempt.Order = j.sequence, j.epoch, len(j.attempts)+1
	attempt.ReceivedAt = now.UTC().Format(time.RFC3339Nano)
	attempt.ReceivedMonoNS = now.Sub(j.started).Nanoseconds()
	attempt.Body, attempt.Trailing, attempt.Unmet, attempt.Step = []byte{}, []byte{}, []string{}, afterName
	result := &begun{attempt: &attempt, after: j.script.After, bearerIsNew: !j.bearers[bearer]}
	if attempt.Order <= len(j.script.Steps) {
		result.step = &j.script.Steps[attempt.Order-1]
		attempt.Step = result.step.Name
	}
	if bearer != "" {
		j.bearers[bearer] = true
	}
	j.attempts = append(j.attempts, &attempt)
	return result
}

// update changes an attempt in flight.
func (j *Journal) update(attempt *Attempt, change func(*Attempt)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(attempt)
}

// answered notes when an attempt was answered.
func (j *Journal) answered(attempt *Attempt) {
	j.update(attempt, func(a *Attempt) { a.AnsweredMonoNS = time.Since(j.started).Nanoseconds() })
}

// finish records the answer to an attempt and takes it out of flight. err is
// why the exchange broke off, or nil.
func (j *Journal) finish(attempt *Attempt, answer Answer, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	attempt.Answered = &answer
	if attempt.AnsweredMonoNS == 0 {
		attempt.AnsweredMonoNS = time.Since(j.started).Nanoseconds()
	}
	if err != nil {
		attempt.Error = err.Error()
	}
	counted := []*Counts{&j.total}
	if attempt.Epoch == j.epoch {
		counted = append(counted, &j.current)
	} else if len(j.late) < maxAttempts {
		j.late = append(j.late, attempt)
	}
	for _, counts := range counted {
		if attempt.Matched {
			counts.Matched++
		} else {
			counts.Unmatched++
		}
	}
	j.land()
}

// wrongEpoch is the error of a reader who asks for an epoch that is not, or no
// longer, the current one.
type wrongEpoch struct{ asked, current uint64 }

func (e wrongEpoch) Error() string {
	return fmt.Sprintf("the epoch %d was asked for and %d is the current one; another PUT /script or POST /reset came between, or the number is wrong", e.asked, e.current)
}

// read reports the current epoch as soon as nothing is in flight, at the latest
// when settle has passed or ctx ends. With asked not nil, that must be the
// epoch, before and after the wait.
func (j *Journal) read(ctx context.Context, asked *uint64, settle time.Duration) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		report, idle, err := j.look(asked)
		if err != nil || report.InFlight == 0 || ctx.Err() != nil {
			return report, err
		}
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
}

// look reports the current epoch as it is, with the channel that closes when
// nothing is in flight any more.
func (j *Journal) look(asked *uint64) (Report, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if asked != nil && *asked != j.epoch {
		return Report{}, nil, wrongEpoch{*asked, j.epoch}
	}
	report := Report{
		Epoch: j.epoch, InFlight: j.inFlight,
		Complete: j.inFlight == 0 && j.current.Dropped == 0 && j.current.Malformed == 0,
		Dropped:  j.current.Dropped, Malformed: j.current.Malformed,
		Late: copies(j.late), Attempts: copies(j.attempts),
	}
	for _, attempt := range j.attempts {
		report.Complete = report.Complete && !attempt.Truncated
	}
	return report, j.idle, nil
}

// copies is what a reader may keep while the originals go on changing. Slices
// in an attempt are replaced, never written into, so they can be shared.
func copies(attempts []*Attempt) []Attempt {
	list := make([]Attempt, len(attempts))
	for i, attempt := range attempts {
		list[i] = *attempt
	}
	return list
}

// counts reports the totals.
func (j *Journal) counts() CountsReport {
	j.mu.Lock()
	defer j.mu.Unlock()
	return CountsReport{j.epoch, j.inFlight, j.total, j.current}
}
