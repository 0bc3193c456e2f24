package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// cuts are the numbers of results whose recall is measured.
var cuts = [...]int{5, 10, 20}

// recall is the share of the wanted files among the first results, for each of the cuts.
type recall [len(cuts)]float64

func measure(v *snapshot, wanted []string, docs []uint32) recall {
	var r recall
	for i, cut := range cuts {
		found := 0
		for _, doc := range docs[:min(cut, len(docs))] {
			if slices.Contains(wanted, v.Path(doc)) {
				found++
			}
		}
		r[i] = float64(found) / float64(len(wanted))
	}
	return r
}

// mean adds up recalls.
type mean struct {
	sum recall
	n   int
}

func (m *mean) add(r recall) {
	for i := range r {
		m.sum[i] += r[i]
	}
	m.n++
}

func (m *mean) merge(o mean) {
	for i := range o.sum {
		m.sum[i] += o.sum[i]
	}
	m.n += o.n
}

func (m mean) String() string {
	if m.n == 0 {
		return "    -     -     -"
	}
	var parts []string
	for _, s := range m.sum {
		parts = append(parts, fmt.Sprintf("%.3f", s/float64(m.n)))
	}
	return strings.Join(parts, " ")
}

// methods are what is compared.
var methods = []string{"brain", "bm25", "rg"}

// table has the results of a set of commits.
type table map[kind]map[string]*mean

func newTable() table {
	t := table{}
	for _, k := range kinds {
		t[k] = map[string]*mean{}
		for _, m := range methods {
			t[k][m] = &mean{}
		}
	}
	return t
}

func (t table) merge(o table) {
	for k := range t {
		for m := range t[k] {
			t[k][m].merge(*o[k][m])
		}
	}
}

func (t table) print(name string) {
	for _, k := range kinds {
		fmt.Printf("%-26s %-8s n=%-4d", name, k, t[k]["brain"].n)
		for _, m := range methods {
			fmt.Printf("  %s %s", m, t[k][m])
		}
		fmt.Println()
	}
}

// report asks all questions and prints the results.
func report(ctx context.Context, repositories []*prepared) error {
	tables := make([]table, len(repositories))
	var durations []time.Duration
	var mu sync.Mutex
	err := each(ctx, len(repositories), func(i int) error {
		t := newTable()
		for j := range repositories[i].Commits {
			c := &repositories[i].Commits[j]
			r := rank.New(c.view, c.past, rank.Tuned())
			for k, text := range c.Questions {
				start := time.Now()
				docs, err := ask(r, text)
				if err != nil {
					return err
				}
				mu.Lock()
				durations = append(durations, time.Since(start))
				mu.Unlock()
				t[k]["brain"].add(measure(c.view, c.Wanted, docs))
				for m, docs := range c.Baselines[k] {
					t[k][m].add(measure(c.view, c.Wanted, docs))
				}
			}
		}
		tables[i] = t
		return nil
	})
	if err != nil {
		return err
	}
	halves := map[bool]table{false: newTable(), true: newTable()}
	for i, p := range repositories {
		tables[i].print(p.Entry.Repo)
		halves[p.Entry.Held].merge(tables[i])
	}
	halves[false].print("TUNED")
	halves[true].print("HELD")
	slices.Sort(durations)
	fmt.Printf("%d questions, p50 %v, p95 %v\n", len(durations), durations[len(durations)/2], durations[len(durations)*95/100])
	return nil
}

func ask(r *rank.Ranker, text string) ([]uint32, error) {
	results, err := r.Search(rank.Question{Text: text, Limit: maxRanks})
	return docsOf(results), err
}

func docsOf(results []rank.Result) []uint32 {
	docs := make([]uint32, len(results))
	for i, result := range results {
		docs[i] = result.Doc
	}
	return docs
}

// each calls do for 0..n-1, as many at once as there are processors.
func each(ctx context.Context, n int, do func(i int) error) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			err := ctx.Err()
			if err == nil {
				err = do(i)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	group.Wait()
	return failed
}

// show explains the results of one commit.
func show(repositories []*prepared, id string) error {
	for _, p := range repositories {
		for i := range p.Commits {
			c := &p.Commits[i]
			if !strings.HasPrefix(c.ID, id) {
				continue
			}
			r := rank.New(c.view, c.past, rank.Tuned())
			for _, k := range kinds {
				fmt.Printf("== %s: %s\n", k, c.Questions[k])
				results, err := r.Search(rank.Question{Text: c.Questions[k], Limit: maxRanks})
				if err != nil {
					return err
				}
				for i, result := range results {
					mark := " "
					if slices.Contains(c.Wanted, result.Path) {
						mark = "*"
					}
					fmt.Printf("%s %2d %.4f %s\n      %s\n", mark, i+1, result.Score, result.Path, result)
				}
				fmt.Println("wanted:", c.Wanted)
			}
		}
	}
	return nil
}
