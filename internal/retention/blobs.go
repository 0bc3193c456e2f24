package retention

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

// reclaim removes contents that nothing refers to.
func (w *work) reclaim(ctx context.Context) error {
	if w.DryRun {
		if err := w.plan(ctx); err != nil {
			return err
		}
	}
	// The order matters: anything that uses a content which was not stored after the cutoff either has a
	// row by now, or began before the cutoff was determined and is covered by it.
	live, err := w.rows.LiveSince(ctx)
	if err != nil {
		return err
	}
	cutoff := earlier(w.now().Add(-grace), live).Add(-artifact.RefreshAge)
	windows, err := w.rows.Windows(ctx, grace)
	if err != nil {
		return err
	}
	active := merged(windows)
	var batch []artifact.Blob
	err = w.blobs.Blobs(ctx, func(b artifact.Blob) error {
		if b.Stored.After(cutoff) {
			return nil
		}
		if batch = append(batch, b); len(batch) < blobBatch {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return w.remove(ctx, batch, active, cutoff)
	})
	if err == nil {
		err = w.remove(ctx, batch, active, cutoff)
	}
	return errors.Join(err, w.failed)
}

// maxFailures is the number of batches with contents that cannot be removed before a clean-up gives up.
const maxFailures = 10

// remove removes those of the given contents that nothing refers to and that nobody may use.
func (w *work) remove(ctx context.Context, batch []artifact.Blob, active []retain.Window, cutoff time.Time) error {
	if len(batch) == 0 {
		return nil
	}
	find := w.rows.Referenced
	if w.DryRun { // its rows were not deleted
		find = func(ctx context.Context, digests []string) ([]string, error) {
			return w.rows.ReferencedAfter(ctx, digests, w.planned)
		}
	}
	loose, err := unreferenced(ctx, find, batch)
	if err != nil || len(loose) == 0 {
		return err
	}
	known, err := w.rows.OnlyFiles(ctx, digestsOf(loose))
	if err != nil {
		return err
	}
	useless := slices.DeleteFunc(loose, func(b artifact.Blob) bool {
		kept := during(active, b.Stored) && !slices.Contains(known, b.Digest)
		if kept {
			w.report.Later.add(1, b.Size)
		}
		return kept
	})
	if w.DryRun {
		for _, b := range useless {
			w.report.Blobs.add(1, b.Size)
		}
		return nil
	}
	if len(useless) == 0 {
		return nil
	}
	count, bytes, err := w.blobs.RemoveOlder(ctx, useless, cutoff)
	w.report.Blobs.add(count, bytes)
	if err == nil {
		return nil
	}
	if w.failures++; w.failures == maxFailures || ctx.Err() != nil {
		return err
	}
	if w.failed == nil { // the other contents do not depend on it
		w.failed = err
	}
	return nil
}

// Reclaim removes those of the given contents that nothing refers to and that were not stored
// recently; a clean-up removes the others later. They were nothing but archives of environments.
func (c *Cleaner) Reclaim(ctx context.Context, digests []string) error {
	if len(digests) == 0 {
		return nil
	}
	cutoff := c.now().Add(-grace - artifact.RefreshAge)
	blobs := make([]artifact.Blob, len(digests))
	for i, d := range digests {
		blobs[i].Digest = d
	}
	loose, err := unreferenced(ctx, c.rows.Referenced, blobs)
	if err != nil || len(loose) == 0 {
		return err
	}
	_, _, err = c.blobs.RemoveOlder(ctx, loose, cutoff)
	return err
}

// unreferenced returns those of the given contents that nothing refers to, according to find.
func unreferenced(ctx context.Context, find func(context.Context, []string) ([]string, error), blobs []artifact.Blob) ([]artifact.Blob, error) {
	used, err := find(ctx, digestsOf(blobs))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(blobs), func(b artifact.Blob) bool { return slices.Contains(used, b.Digest) }), nil
}

func digestsOf(blobs []artifact.Blob) []string {
	out := make([]string, len(blobs))
	for i, b := range blobs {
		out[i] = b.Digest
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// merged returns disjoint windows that cover the given ones, which are ordered by their beginning,
// and everything that may look older or have been stored a little later.
func merged(windows []retain.Window) []retain.Window {
	var out []retain.Window
	for _, w := range windows {
		w = retain.Window{From: w.From.Add(-artifact.RefreshAge), To: w.To.Add(grace)}
		if n := len(out); n > 0 && !w.From.After(out[n-1].To) {
			if w.To.After(out[n-1].To) {
				out[n-1].To = w.To
			}
			continue
		}
		out = append(out, w)
	}
	return out
}

// during reports whether a time is in one of the merged windows.
func during(windows []retain.Window, at time.Time) bool {
	i, found := slices.BinarySearchFunc(windows, at, func(w retain.Window, at time.Time) int { return w.From.Compare(at) })
	return found || i > 0 && !at.After(windows[i-1].To)
}
