// The oracle plays commits of public repositories through the product, with a model that reproduces
// each commit's diff exactly, and prints a table of the results. The exit code is 1 if any of them
// failed.
//
//	go run ./test/oracle/cmd -list test/oracle/commits.yaml -mirrors /mirrors
//	go run ./test/oracle/cmd -pick 3 -repo go-chi/chi -mirrors '/mirrors/{owner}/{name}.git'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/test/oracle"
)

// options are the command-line options.
type options struct {
	list, only     string
	repos          []string
	commit         string
	pick           int
	write          bool
	scenario       bool
	base           bool
	out, dir       string
	where          commits.Repositories
	play           oracle.Options
	stdout, stderr io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	o, err := parse(os.Args[1:], os.Stdout, os.Stderr)
	fine := true
	if err == nil {
		fine, err = o.run(ctx)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	case !fine:
		os.Exit(1)
	}
}

// appendTo returns the setter of a repeatable flag.
func appendTo(list *[]string) func(string) error {
	return func(s string) error { *list = append(*list, s); return nil }
}

// parse reads the command line.
func parse(args []string, stdout, stderr io.Writer) (*options, error) {
	o := &options{stdout: stdout, stderr: stderr}
	f := flag.NewFlagSet("oracle", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.list, "list", "", "play the commits of this table (YAML)")
	f.StringVar(&o.only, "only", "", "play only repositories of the table whose name contains this text")
	f.Func("repo", "repository: owner/name, path or URL; repeatable", appendTo(&o.repos))
	f.StringVar(&o.commit, "commit", "", "play this commit of -repo")
	f.IntVar(&o.pick, "pick", 0, "number of the newest suitable commits to choose from each -repo")
	f.BoolVar(&o.write, "write", false, "print the chosen commits as a table without playing them")
	f.BoolVar(&o.scenario, "scenario", false, "print the scenario of the chosen commits without playing them")
	f.BoolVar(&o.base, "base", false, "only build the environment of each commit's parent, with rgpt env build")
	f.StringVar(&o.where.Mirrors, "mirrors", "", "directory of bare mirrors, DIR/owner+name/repo; or a pattern with {owner} and {name}")
	f.StringVar(&o.where.Cache, "cache", filepath.Join(os.TempDir(), "rgpt-oracle-repositories"), "directory into which repositories without a mirror are cloned, once")
	f.StringVar(&o.play.Bin, "bin", "bin", "directory of the product's programs")
	f.StringVar(&o.dir, "dir", "", "directory for the stack's data and the clones (default: a new one, removed if everything succeeds)")
	f.StringVar(&o.out, "json", "", "append each result to this file as a line of JSON")
	f.DurationVar(&o.play.RunTime, "run-time", oracle.DefaultRunTime, "time limit of one run")
	f.BoolVar(&o.play.Warm, "warm", false, "play each successful commit a second time to measure a warm run")
	f.Func("set", "setting of each run, key=value; repeatable", appendTo(&o.play.Settings))
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.play.Log = stderr
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q is not a flag", f.Arg(0))
	case o.list == "" && len(o.repos) == 0:
		return nil, errors.New("no commits are chosen: use -list, or -repo with -pick or -commit")
	case len(o.repos) > 0 && (o.pick > 0) == (o.commit != ""):
		return nil, errors.New("-repo requires either -pick or -commit")
	}
	return o, nil
}

// run chooses commits and plays them, or prints them.
func (o *options) run(ctx context.Context) (fine bool, err error) {
	scripts, results, err := o.choose(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case o.write:
		return len(results) == 0, o.printTable(scripts, results)
	case o.scenario:
		text, err := oracle.Scenarios(scripts...)
		if err == nil {
			_, err = o.stdout.Write(text)
		}
		return len(results) == 0, err
	}
	if err := o.keep(results...); err != nil {
		return false, err
	}
	results, err = o.playAll(ctx, scripts, results)
	write := oracle.WriteMarkdown
	if o.base {
		write = oracle.WriteBases
	}
	return allFine(results), errors.Join(err, write(o.stdout, results))
}

func allFine(results []oracle.Result) bool {
	for _, r := range results {
		if !r.OK {
			return false
		}
	}
	return true
}

// choose creates the scripts of the commits that the command line selects.
func (o *options) choose(ctx context.Context) (scripts []*oracle.Script, others []oracle.Result, err error) {
	table := oracle.Table{}
	if o.list != "" {
		if table, err = oracle.ReadTable(o.list); err != nil {
			return nil, nil, err
		}
	}
	var chosen oracle.Table
	for _, e := range table {
		if strings.Contains(e.Repo, o.only) {
			chosen = append(chosen, e)
		}
	}
	for _, repo := range o.repos {
		if o.commit != "" {
			chosen = append(chosen, oracle.Entry{Repo: repo, Commits: []oracle.Commit{{ID: o.commit}}})
			continue
		}
		picked, err := o.pickFrom(ctx, repo)
		if err != nil {
			return nil, nil, err
		}
		scripts = append(scripts, picked...)
	}
	more, others := chosen.Scripts(ctx, o.where)
	return append(scripts, more...), others, nil
}

// pickFrom picks commits of a repository and reports the result.
func (o *options) pickFrom(ctx context.Context, repo string) ([]*oracle.Script, error) {
	dir, err := o.where.Find(ctx, repo)
	if err != nil {
		return nil, err
	}
	picked, err := commits.Pick(ctx, dir, o.pick)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(o.stderr, "%s: %d suitable commits tried, %d of them playable\n", repo, picked.Suitable, len(picked.Scripts))
	for _, refused := range picked.Refused {
		fmt.Fprintf(o.stderr, "  %s\n", refused)
	}
	for _, s := range picked.Scripts {
		s.Repo = repo
	}
	return picked.Scripts, nil
}

// printTable prints scripts as a table, in the order of their repositories.
func (o *options) printTable(scripts []*oracle.Script, others []oracle.Result) error {
	var table oracle.Table
	for _, s := range scripts {
		if len(table) == 0 || table[len(table)-1].Repo != s.Repo {
			table = append(table, oracle.Entry{Repo: s.Repo})
		}
		last := &table[len(table)-1]
		last.Commits = append(last.Commits, s.Commit)
	}
	for _, r := range others {
		fmt.Fprintf(o.stderr, "%s %s: %s\n", r.Repo, r.ID, strings.Join(r.Problems, "; "))
	}
	text, err := table.Text()
	if err != nil {
		return err
	}
	_, err = o.stdout.Write(text)
	return err
}

// playAll plays all scripts on one stack, one at a time.
func (o *options) playAll(ctx context.Context, scripts []*oracle.Script, results []oracle.Result) (all []oracle.Result, err error) {
	if len(scripts) == 0 {
		return results, nil
	}
	made := o.dir == ""
	o.play.Dir = o.dir
	if made {
		if o.play.Dir, err = os.MkdirTemp("", "rgpt-oracle-"); err != nil {
			return results, err
		}
	}
	stack, err := oracle.Start(ctx, o.play, scripts...)
	if err != nil {
		return results, err
	}
	defer func() {
		err = errors.Join(err, stack.Stop(ctx))
		switch {
		case !made:
		case err == nil && allFine(all):
			err = os.RemoveAll(o.play.Dir)
		default:
			fmt.Fprintf(o.stderr, "The stack's data and the clones are kept in %s\n", o.play.Dir)
		}
	}()
	for _, s := range scripts {
		if ctx.Err() != nil {
			return results, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		play := stack.Play
		if o.base {
			play = stack.BuildEnvironment
		}
		r := play(ctx, s)
		results = append(results, r)
		o.tell(r)
		if err := o.keep(r); err != nil {
			return results, err
		}
	}
	return results, nil
}

// tell immediately reports the result of a commit.
func (o *options) tell(r oracle.Result) {
	took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	fmt.Fprintf(o.stderr, "  %s after %s\n", r.Status, took)
	for _, problem := range r.Problems {
		fmt.Fprintf(o.stderr, "  %.600s\n", problem)
	}
}

// keep appends results to the JSON lines file.
func (o *options) keep(results ...oracle.Result) error {
	if o.out == "" || len(results) == 0 {
		return nil
	}
	f, err := os.OpenFile(o.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the results file: %w", err)
	}
	return errors.Join(oracle.WriteLines(f, results...), f.Close())
}
