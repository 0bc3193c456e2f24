// Command retrieval measures how well the brain finds the files that a change must touch: on commits of
// public repositories, the question is the commit's message, and the wanted files are those that the
// commit changed. The index is that of the commit's parent, and the history ends there. It prints the
// share of the wanted files among the first 5, 10 and 20 results, beside plain BM25 and ripgrep.
//
//	go run ./test/retrieval -mirrors DIR
//	go run ./test/retrieval -mirrors DIR -part held -questions issue
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "retrieval:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	where  commits.Repositories
	list   string
	part   string
	only   string
	cache  string
	choose bool
	tune   bool
	ablate bool
	embed  string
	show   string
}

func run(ctx context.Context) error {
	var o options
	flag.StringVar(&o.list, "list", "test/retrieval/commits.yaml", "commits to evaluate (YAML)")
	flag.StringVar(&o.part, "part", "all", "repositories to measure: tuned, held or all")
	flag.StringVar(&o.only, "only", "", "measure only these repositories, with commas between them")
	flag.StringVar(&o.cache, "cache", filepath.Join(os.TempDir(), "rgpt-retrieval"), "directory of indexes that are kept between calls")
	flag.BoolVar(&o.choose, "select", false, "choose the commits of the list's repositories again, and write the list")
	flag.BoolVar(&o.tune, "tune", false, "search for better weights on the tuned half")
	flag.BoolVar(&o.ablate, "ablate", false, "print the recall without each signal")
	flag.StringVar(&o.embed, "embed", "", "measure what embeddings add, computed at this base URL (scripts/embedding-model.sh)")
	flag.StringVar(&o.show, "show", "", "explain the results of this commit")
	flag.StringVar(&o.where.Mirrors, "mirrors", "", "directory of bare mirrors, DIR/owner+name/repo; or a pattern with {owner} and {name}")
	flag.StringVar(&o.where.Cache, "clones", filepath.Join(os.TempDir(), "rgpt-oracle-repositories"), "directory into which repositories without a mirror are cloned, once")
	flag.Parse()
	if o.part != "tuned" && o.part != "held" && o.part != "all" {
		return fmt.Errorf("-part %s is unknown; use tuned, held or all", o.part)
	}
	if o.tune {
		o.part = "tuned"
	}
	entries, err := readList(o.list)
	if err != nil {
		return err
	}
	if o.choose {
		return chooseAll(ctx, o, entries)
	}
	repositories, err := prepareAll(ctx, o, entries)
	switch {
	case err != nil:
		return err
	case o.show != "":
		return show(repositories, o.show)
	case o.tune:
		return tune(ctx, repositories)
	case o.embed != "":
		return embeddings(ctx, o, repositories)
	case o.ablate:
		return ablate(ctx, repositories)
	}
	return report(ctx, repositories)
}

func chooseAll(ctx context.Context, o options, entries []entry) error {
	split(entries)
	for i, e := range entries {
		dir, err := o.where.Find(ctx, e.Repo)
		if err != nil {
			return err
		}
		r, err := openRepository(ctx, dir)
		if err != nil {
			return err
		}
		entries[i].Commits, err = r.choose()
		r.close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Repo, err)
		}
		fmt.Printf("%-28s %-12s held=%v %d\n", e.Repo, e.Language, entries[i].Held, len(entries[i].Commits))
	}
	return writeList(o.list, entries)
}

// prepareAll prepares the repositories that are measured, as many at once as there are processors.
func prepareAll(ctx context.Context, o options, entries []entry) ([]*prepared, error) {
	var all []*prepared
	var mu sync.Mutex
	var failed error
	var group sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, e := range entries {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), e.Repo) || o.part == "held" && !e.Held || o.part == "tuned" && e.Held || len(e.Commits) == 0 {
			continue
		}
		dir, err := o.where.Find(ctx, e.Repo)
		if err != nil {
			return nil, err
		}
		place := len(all)
		all = append(all, nil)
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p, err := prepare(ctx, dir, o.cache, e)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
			}
			all[place] = p
		})
	}
	group.Wait()
	return all, failed
}
