// Command upstream is the mock model provider behind a gateway under test: it
// answers by script, keeps a journal of every attempt that reached it, and can
// relay TCP between two networks. It never connects to a real provider.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// version names this program's behaviour: control API, script and journal.
const version = "1.0.0"

// Exit statuses. A refused command line or port is the caller's to put right.
const (
	exitOK      = 0
	exitFailed  = 1
	exitRefused = 2
)

const usage = `usage:
  upstream serve --model ADDR --control ADDR [--max-body BYTES] [--listeners FILE] [--exit-with-parent]
  upstream relay --forward LISTEN=TARGET [--forward LISTEN=TARGET ...] [--exit-with-parent]
  upstream routes [--close]
  upstream version
ADDR and LISTEN are IP:PORT (port 0 takes a free one), TARGET is HOST:PORT.
`

// refusal is an error that the caller of the command can put right: one
// sentence saying what was wrong, what was expected and what to do.
type refusal struct{ sentence string }

func (r refusal) Error() string { return r.sentence }

func refuse(format string, args ...any) error {
	return refusal{fmt.Sprintf(format, args...)}
}

func main() {
	// Without this, a log nobody reads any more would kill the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit status. It is main
// without the process, so that every stream can be given.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := dispatch(args, stdin, stdout, stderr)
	var refused refusal
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		return exitOK
	case errors.As(err, &refused):
		fmt.Fprintf(stderr, "upstream: %s\n", refused.sentence)
		return exitRefused
	default:
		fmt.Fprintf(stderr, "upstream: %s\n", err)
		return exitFailed
	}
}

func dispatch(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return refuse("no subcommand was given; expected serve, relay, routes or version; see upstream --help")
	}
	switch args[0] {
	case "serve":
		options, err := parseServe(args[1:])
		if err != nil {
			return err
		}
		return serve(options, stdin, stdout, stderr)
	case "relay":
		options, err := parseRelay(args[1:])
		if err != nil {
			return err
		}
		return relay(options, stdin, stdout, stderr)
	case "routes":
		closing, err := parseRoutes(args[1:])
		if err != nil {
			return err
		}
		if closing {
			if err := closeDefaultRoutes(); err != nil {
				return err
			}
		}
		return showRoutes(stdout)
	case "version":
		if len(args) > 1 {
			return refuse("version was given %q; expected no argument; leave it out", args[1])
		}
		return printLine(stdout, map[string]string{"version": version, "go": runtime.Version()})
	case "-h", "-help", "--help", "help":
		return flag.ErrHelp
	}
	return refuse("%q is not a subcommand; expected serve, relay, routes or version; see upstream --help", args[0])
}

// printLine writes value as one line of JSON, the only thing a subcommand
// ever puts on standard output.
func printLine(stdout io.Writer, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if _, err := stdout.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("standard output cannot be written: %w", err)
	}
	return nil
}

// serveOptions is the command line of `upstream serve`.
type serveOptions struct {
	model, control netip.AddrPort
	maxBody        int64  // bytes of one request body kept in the journal
	listeners      string // the file that PUT /listeners replaces; empty for none
	exitWithParent bool
}

func parseServe(args []string) (serveOptions, error) {
	var options serveOptions
	var model, control string
	flags := newFlags("serve")
	flags.StringVar(&model, "model", "", "")
	flags.StringVar(&control, "control", "", "")
	flags.Int64Var(&options.maxBody, "max-body", 16<<20, "")
	flags.StringVar(&options.listeners, "listeners", "", "")
	flags.BoolVar(&options.exitWithParent, "exit-with-parent", false, "")
	if err := parseFlags(flags, args); err != nil {
		return options, err
	}
	var err error
	if options.model, err = parseListen("--model", model); err != nil {
		return options, err
	}
	if options.control, err = parseListen("--control", control); err != nil {
		return options, err
	}
	if options.maxBody < 1 || options.maxBody > 1<<30 {
		return options, refuse("--max-body is %d; expected 1 to 1073741824 bytes; give a number in that range", options.maxBody)
	}
	return options, nil
}

// parseRoutes returns whether default routes are to be removed first.
func parseRoutes(args []string) (closing bool, err error) {
	flags := newFlags("routes")
	flags.BoolVar(&closing, "close", false, "")
	return closing, parseFlags(flags, args)
}

// forward is one pair of `upstream relay`.
type forward struct {
	asked  string // LISTEN as the caller wrote it: the key in the line printed
	listen netip.AddrPort
	target string // host:port, resolved anew for each connection
}

// relayOptions is the command line of `upstream relay`.
type relayOptions struct {
	forwards       []forward
	exitWithParent bool
}

func parseRelay(args []string) (relayOptions, error) {
	var options relayOptions
	var pairs []string
	flags := newFlags("relay")
	flags.Func("forward", "", func(pair string) error {
		pairs = append(pairs, pair)
		return nil
	})
	flags.BoolVar(&options.exitWithParent, "exit-with-parent", false, "")
	if err := parseFlags(flags, args); err != nil {
		return options, err
	}
	if len(pairs) == 0 {
		return options, refuse("no --forward was given; expected at least one LISTEN=TARGET; add --forward 127.0.0.1:0=HOST:PORT")
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		asked, target, found := strings.Cut(pair, "=")
		if !found {
			return options, refuse("--forward %q has no '='; expected LISTEN=TARGET; write it as 127.0.0.1:0=HOST:PORT", pair)
		}
		if seen[asked] {
			return options, refuse("--forward names %s twice; expected each LISTEN once, since it names the pair in the line printed; give each its own address or port", asked)
		}
		seen[asked] = true
		listen, err := parseListen("--forward", asked)
		if err != nil {
			return options, err
		}
		if err := checkTarget(target); err != nil {
			return options, err
		}
		options.forwards = append(options.forwards, forward{asked, listen, target})
	}
	return options, nil
}

// newFlags makes a flag set that prints nothing: run prints the one sentence.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

func parseFlags(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return refuse("%s has a bad option: %s; see upstream --help", flags.Name(), err)
	}
	if flags.NArg() > 0 {
		return refuse("%s was given %q; expected options only; see upstream --help", flags.Name(), flags.Arg(0))
	}
	return nil
}
