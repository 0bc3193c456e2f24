package main

import (
	"context"
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// ablate prints what each signal contributes: the recall without it, and that of keywords alone.
func ablate(ctx context.Context, repositories []*prepared) error {
	only := rank.Tuned()
	for s := range rank.Signals {
		if s != rank.SignalKeywords {
			only.Signal[s] = 0
		}
	}
	if err := variant(ctx, repositories, "all signals", rank.Tuned()); err != nil {
		return err
	}
	if err := variant(ctx, repositories, "keywords alone", only); err != nil {
		return err
	}
	without := rank.Tuned()
	without.Signal[rank.SignalPast], without.Signal[rank.SignalActivity], without.Signal[rank.SignalTogether] = 0, 0, 0
	if err := variant(ctx, repositories, "without history", without); err != nil {
		return err
	}
	for s := range rank.Signals {
		w := rank.Tuned()
		if w.Signal[s] == 0 || s == rank.SignalVectors {
			continue
		}
		w.Signal[s] = 0
		if err := variant(ctx, repositories, "without "+s.String(), w); err != nil {
			return err
		}
	}
	return nil
}

// variant prints the recall of the ranking with other weights.
func variant(ctx context.Context, repositories []*prepared, name string, w rank.Weights) error {
	tables := make([]table, len(repositories))
	err := each(ctx, len(repositories), func(i int) error {
		tables[i] = newTable()
		for j := range repositories[i].Commits {
			c := &repositories[i].Commits[j]
			r := rank.New(c.view, c.past, w)
			for k, text := range c.Questions {
				docs, err := ask(r, text)
				if err != nil {
					return err
				}
				tables[i][k]["brain"].add(measure(c.view, c.Wanted, docs))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	total := newTable()
	for _, t := range tables {
		total.merge(t)
	}
	fmt.Printf("%-26s", name)
	for _, k := range kinds {
		fmt.Printf("  %s %s", k, total[k]["brain"])
	}
	fmt.Println()
	return nil
}
