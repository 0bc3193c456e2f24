// The command gatecorpus measures the guards of the policy gate: precision and recall of each, on a
// corpus of labelled changes. Half of the corpus is only for reporting, not for tuning guards.
//
// The corpus has four parts: attacks and harmless changes that were written for it (data/*.yaml),
// mutations of a small repository (data/base.yaml), real commits of public repositories, which count
// as harmless (data/commits.txt), and mutations of those commits. The parts with real commits need
// clones of the repositories: see -mirrors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
)

// options are the command-line options.
type options struct {
	mirrors      string
	repositories string
	half         string
	errors       bool
	json         bool
	guard        string
	choose       int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gatecorpus:", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("gatecorpus", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.StringVar(&o.mirrors, "mirrors", "", "folder with clones of the repositories, as OWNER+NAME or OWNER+NAME/repo; without it, only what is in this repository is judged")
	fs.StringVar(&o.repositories, "repositories", "", "only the repositories (OWNER/NAME) between these two, such as a,m; to measure in pieces")
	fs.StringVar(&o.half, "half", "both", "tuned, held or both")
	fs.StringVar(&o.guard, "guard", "", "list only errors of this guard")
	fs.BoolVar(&o.errors, "errors", false, "list each error")
	fs.BoolVar(&o.json, "json", false, "print the outcomes as JSON, one per line, so that pieces can be added up")
	fs.IntVar(&o.choose, "choose", 0, "instead of measuring, choose this number of commits of each clone and print them as data/commits.txt")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if !slices.Contains([]string{"both", string(Tuned), string(Held)}, o.half) {
		return o, fmt.Errorf("-half %q: choose tuned, held or both", o.half)
	}
	return o, nil
}

// run measures, and prints the table.
func run(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parse(args, errs)
	if err != nil {
		return err
	}
	if o.choose > 0 {
		return choose(ctx, o.mirrors, o.choose, out)
	}
	guards, err := gate.Guards(config.Default())
	if err != nil {
		return err
	}
	own, err := Own()
	if err != nil {
		return err
	}
	j := &judge{guards: guards, half: o.half}
	if o.repositories == "" {
		for _, p := range own {
			if err := j.judge(ctx, p); err != nil {
				return err
			}
		}
	}
	if o.mirrors != "" {
		if err := j.commits(ctx, o, errs); err != nil {
			return err
		}
	}
	if o.json {
		enc := json.NewEncoder(out)
		for _, x := range j.outcomes {
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	if err := table(out, j.outcomes); err != nil {
		return err
	}
	if o.errors {
		return list(out, j.outcomes, o.guard)
	}
	return nil
}

// between reports whether a name is within a range such as a,m.
func between(name, bounds string) bool {
	from, to, ok := strings.Cut(bounds, ",")
	return !ok || strings.ToLower(name) >= from && strings.ToLower(name) < to
}
