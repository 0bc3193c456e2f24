package rewrite

import (
	"bytes"
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// The deletions that are a danger whatever the limits: both must be exceeded, unless all files
// disappear.
const (
	MaxDeleted      = 20
	MaxDeletedShare = 20 // percent of the files before the change
)

// A file whose content shrinks from at least emptiedFrom bytes to less than one part in emptiedTo
// counts as deleted.
const (
	emptiedFrom = 1000
	emptiedTo   = 20
)

// amounts compares the size of the change with the limits.
func (j *judge) amounts(ctx context.Context) error {
	l := j.Limits
	if j.Unread > 0 {
		j.add("unread", contract.SeverityMajor, "", 0, "%d changed files were not examined, because the change has too many; split it", j.Unread)
	}
	if n := len(j.Files) + j.Unread; l.Files > 0 && n > l.Files {
		j.add("files", contract.SeverityMajor, "", 0, "the change has %d files, more than the limit of %d; split it", n, l.Files)
	}
	total := int64(0)
	for _, f := range j.Files {
		if f.Before.Digest == f.After.Digest {
			continue
		}
		total += f.After.Size
		if l.FileBytes > 0 && f.After.Size > l.FileBytes {
			j.add("file-size", contract.SeverityMajor, f.Path, 0, "%s has %d bytes, more than the limit of %d for a file; leave it out, or make it smaller",
				change.Clean(f.Path), f.After.Size, l.FileBytes)
		}
	}
	if l.Bytes > 0 && total > l.Bytes {
		j.add("size", contract.SeverityMajor, "", 0, "the new and changed files have %d bytes, more than the limit of %d; split the change", total, l.Bytes)
	}
	if l.Lines > 0 {
		return j.lines(ctx)
	}
	return nil
}

// lines compares the number of changed lines with its limit, and stops when it is exceeded.
func (j *judge) lines(ctx context.Context) error {
	n := 0
	for _, f := range j.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Before.Digest == f.After.Digest {
			continue
		}
		// At least the difference in their numbers has changed. This saves a long comparison.
		least := bytes.Count(f.After.Content, newline) - bytes.Count(f.Before.Content, newline)
		if least = max(least, -least); n+least <= j.Limits.Lines {
			added, removed := f.Lines()
			least = len(added) + len(removed)
		}
		if n += least; n > j.Limits.Lines {
			j.add("lines", contract.SeverityMajor, "", 0, "the change adds and removes at least %d lines, more than the limit of %d; split it", n, j.Limits.Lines)
			return nil
		}
	}
	return nil
}

var newline = []byte("\n")

// deletions looks for the loss of many files.
func (j *judge) deletions(ctx context.Context) error {
	gone := 0
	for _, f := range j.Files {
		if f.Before.Exists() && (f.Deleted() || emptied(f)) {
			gone++
		}
	}
	if gone == 0 {
		return nil
	}
	if most := j.Limits.Deletions; most > 0 && gone > most {
		j.add("deletions", contract.SeverityMajor, "", 0, "the change deletes or empties %d files, more than the limit of %d; check that this is meant", gone, most)
	}
	before, err := j.Base.Paths(ctx)
	if err != nil {
		return err
	}
	all := len(before)
	if gone >= all || gone > MaxDeleted && gone*100 > all*MaxDeletedShare {
		j.add("mass-deletion", contract.SeverityMajor, "", 0, "the change deletes or empties %d of the %d files of the repository; check that this is meant", gone, all)
	}
	return nil
}

// emptied reports whether a file loses nearly all of its content.
func emptied(f change.File) bool {
	if !f.Before.Regular() || f.Deleted() {
		return false
	}
	return f.Before.Size > 0 && f.After.Size == 0 || f.Before.Size >= emptiedFrom && f.After.Size*emptiedTo < f.Before.Size
}
