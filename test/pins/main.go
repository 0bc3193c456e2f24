// Command pins measures how well internal/pin recognises what changes do to tests: on commits of
// public repositories whose effects on tests were labelled by hand, and on mutations of tests in the
// same repositories. It prints precision and recall, and each finding or label that has no
// counterpart.
//
//	go run ./test/pins -mirrors DIR
//	go run ./test/pins -mirrors DIR -part held
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pins:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var (
		where commits.Repositories
		list  = flag.String("list", "test/pins/commits.yaml", "labelled commits (YAML)")
		part  = flag.String("part", "all", "repositories to measure: open, held or all")
		only  = flag.String("only", "", "measure only this repository")
	)
	flag.StringVar(&where.Mirrors, "mirrors", "", "directory of bare mirrors, DIR/owner+name/repo; or a pattern with {owner} and {name}")
	flag.StringVar(&where.Cache, "cache", filepath.Join(os.TempDir(), "rgpt-oracle-repositories"), "directory into which repositories without a mirror are cloned, once")
	flag.Parse()
	if *part != "open" && *part != "held" && *part != "all" {
		return fmt.Errorf("-part %s is unknown; use open, held or all", *part)
	}
	corpus, err := readCorpus(*list)
	if err != nil {
		return err
	}
	var commits, mutations score
	for _, e := range corpus {
		if *only != "" && e.Repo != *only || *part == "held" && !e.Held || *part == "open" && e.Held {
			continue
		}
		dir, err := where.Find(ctx, e.Repo)
		if err != nil {
			return err
		}
		r, err := openRepository(ctx, dir)
		if err != nil {
			return err
		}
		err = measure(ctx, r, e, &commits, &mutations)
		r.close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Repo, err)
		}
	}
	commits.print("Commits")
	mutations.print("Mutations")
	return nil
}

// measure adds the results of a repository's commits and mutations.
func measure(ctx context.Context, r *repository, e entry, commits, mutations *score) error {
	for _, c := range e.Commits {
		files, err := r.changed(c.ID)
		if err != nil {
			return err
		}
		if err := commits.addCommit(ctx, e.Repo, c, files); err != nil {
			return err
		}
		if err := mutations.addMutations(ctx, r, e.Repo, c.ID); err != nil {
			return err
		}
	}
	return nil
}
