package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// settings are everything that is tuned.
type settings struct {
	rank rank.Weights
	past history.Weights
	// similar and seeds are numbers of the weights that are whole.
	similar, seeds float64
}

func current() settings {
	s := settings{rank: rank.Tuned(), past: history.Tuned()}
	s.similar, s.seeds = float64(s.past.Similar), float64(s.rank.Seeds)
	return s
}

// whole copies the whole numbers to the weights.
func (s settings) whole() settings {
	s.past.Similar, s.rank.Seeds = max(int(s.similar), 1), max(int(s.seeds), 1)
	return s
}

// knob is one number of the settings.
type knob struct {
	name   string
	at     func(*settings) *float64
	values []float64 // factors to try; 0 means: try without it
}

// knobs lists what is tuned, what is cheap to change first.
func knobs() []knob {
	around := []float64{0, 0.5, 0.7, 1.4, 2}
	slight := []float64{0.6, 0.8, 1.25, 1.6}
	var all []knob
	for s := range rank.Signals {
		if s == rank.SignalVectors || s == rank.SignalKeywords { // the latter sets the scale
			continue
		}
		all = append(all, knob{s.String(), func(w *settings) *float64 { return &w.rank.Signal[s] }, around})
	}
	all = append(all,
		knob{"K", func(w *settings) *float64 { return &w.rank.K }, around[1:]},
		knob{"K1", func(w *settings) *float64 { return &w.rank.K1 }, slight},
		knob{"head", func(w *settings) *float64 { return &w.rank.Head }, slight},
		knob{"identifier", func(w *settings) *float64 { return &w.rank.Identifier }, slight},
		knob{"similar", func(w *settings) *float64 { return &w.similar }, around[1:]},
		knob{"seeds", func(w *settings) *float64 { return &w.seeds }, around[1:]},
		knob{"half-life", func(w *settings) *float64 { return &w.past.HalfLife }, around[1:]},
		knob{"spread", func(w *settings) *float64 { return &w.past.Spread }, around},
		knob{"length", func(w *settings) *float64 { return &w.past.Length }, around},
		knob{"saturation", func(w *settings) *float64 { return &w.past.Saturation }, around[1:]},
		knob{"busy", func(w *settings) *float64 { return &w.past.Busy }, around},
		knob{"doubt", func(w *settings) *float64 { return &w.past.Doubt }, around[1:]},
	)
	for f := range rank.Fields {
		all = append(all,
			knob{fmt.Sprintf("field %d", f), func(w *settings) *float64 { return &w.rank.Field[f] }, around},
			knob{fmt.Sprintf("b %d", f), func(w *settings) *float64 { return &w.rank.B[f] }, slight})
	}
	return all
}

// tune changes one knob after the other, keeps what is better on the given repositories.
func tune(ctx context.Context, repositories []*prepared) error {
	w := current()
	for round := range rounds {
		best, err := quality(ctx, repositories, w, round%samples)
		if err != nil {
			return err
		}
		fmt.Printf("start %.4f\n", best)
		for _, k := range knobs() {
			start := time.Now()
			old := *k.at(&w)
			keep := old
			for _, factor := range k.values {
				*k.at(&w) = old * factor
				score, err := quality(ctx, repositories, w, round%samples)
				if err != nil {
					return err
				}
				if score > best+minGain {
					best, keep = score, old*factor
				}
			}
			*k.at(&w) = keep
			if keep != old {
				fmt.Printf("%d %-16s %.3f -> %.3f  %.4f  (%v)\n", round, k.name, old, keep, best, time.Since(start).Round(time.Second))
			}
		}
		fmt.Printf("round %d: %.4f\n%+v\n", round, best, w.whole())
	}
	return nil
}

const (
	// rounds is how often all knobs are tried.
	rounds = 3
	// samples is the number of parts of the commits, of which each round looks at one.
	samples = 3
)

// minGain is the least gain that counts: less is chance.
const minGain = 0.0008

// quality is what is optimised: the mean recall@10 over the kinds of questions, with a little of the
// recall at the other cuts.
func quality(ctx context.Context, repositories []*prepared, w settings, sample int) (float64, error) {
	w = w.whole()
	sums := make([]float64, len(repositories))
	err := each(ctx, len(repositories), func(i int) error {
		means := map[kind]*mean{}
		for _, k := range kinds {
			means[k] = &mean{}
		}
		for j := sample; j < len(repositories[i].Commits); j += samples {
			c := &repositories[i].Commits[j]
			past := c.past
			r := rank.New(c.view, past.With(w.past), w.rank)
			for k, text := range c.Questions {
				docs, err := ask(r, text)
				if err != nil {
					return err
				}
				means[k].add(measure(c.view, c.Wanted, docs))
			}
		}
		for _, m := range means {
			if m.n > 0 {
				sums[i] += (m.sum[0] + 2*m.sum[1] + m.sum[2]) / 4 / float64(m.n) / float64(len(kinds))
			}
		}
		return nil
	})
	var total float64
	for _, s := range sums {
		total += s / float64(len(sums))
	}
	return total, err
}
