package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// attempted passes one attempt through the journal up to its answer.
func attempted(j *Journal) *begun {
	j.arrive()
	return j.begin(Attempt{}, "")
}

func mustRead(t *testing.T, j *Journal, settle time.Duration) Report {
	t.Helper()
	report, err := j.read(context.Background(), nil, settle)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestJournalIsFull(t *testing.T) {
	j := newJournal()
	for range maxAttempts {
		j.finish(attempted(j).attempt, Answer{}, nil)
	}
	if report := mustRead(t, j, 0); !report.Complete || len(report.Attempts) != maxAttempts {
		t.Fatalf("full: complete %t, %d attempts", report.Complete, len(report.Attempts))
	}
	if attempted(j) != nil {
		t.Fatal("an attempt more was taken")
	}
	report := mustRead(t, j, 0)
	if report.Complete || report.Dropped != 1 || report.InFlight != 0 {
		t.Errorf("overfull: complete %t, dropped %d, in flight %d", report.Complete, report.Dropped, report.InFlight)
	}
	j.reset()
	if begun := attempted(j); begun == nil || begun.attempt.Order != 1 || begun.attempt.Sequence != maxAttempts+2 {
		t.Errorf("after reset: %+v", begun)
	}
}

func TestJournalLate(t *testing.T) {
	j := newJournal()
	old := attempted(j)
	epoch := j.reset()
	current := attempted(j)
	j.finish(current.attempt, Answer{}, nil)
	if report := mustRead(t, j, 0); report.InFlight != 1 || report.Complete || len(report.Late) != 0 {
		t.Errorf("while the old one is in flight: %+v", report)
	}
	j.finish(old.attempt, Answer{Status: 503}, nil)
	report := mustRead(t, j, 0)
	if !report.Complete || len(report.Attempts) != 1 || len(report.Late) != 1 || report.Late[0].Epoch != epoch-1 {
		t.Errorf("after it ended: %+v", report)
	}
	j.reset()
	if report := mustRead(t, j, 0); len(report.Late) != 0 {
		t.Errorf("in the next epoch: %+v", report)
	}
}

func TestReadWaitsForTheLastAnswer(t *testing.T) {
	j := newJournal()
	first, second := attempted(j), attempted(j)
	go func() {
		time.Sleep(10 * time.Millisecond)
		j.finish(first.attempt, Answer{}, nil)
		time.Sleep(10 * time.Millisecond)
		j.finish(second.attempt, Answer{}, nil)
	}()
	if report := mustRead(t, j, 5*time.Second); !report.Complete || report.Attempts[1].Answered == nil {
		t.Errorf("%+v", report)
	}
}

func TestReadRefusesAnEpochThatPassed(t *testing.T) {
	j := newJournal()
	epoch := j.reset()
	attempted(j)
	go func() {
		time.Sleep(10 * time.Millisecond)
		j.reset()
	}()
	_, err := j.read(context.Background(), &epoch, 50*time.Millisecond)
	var wrong wrongEpoch
	if !errors.As(err, &wrong) || wrong != (wrongEpoch{epoch, epoch + 1}) {
		t.Errorf("got %v", err)
	}
}
