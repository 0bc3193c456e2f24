// Package brain stores what was extracted from the files of repositories, so that a file is read once
// for all branches, runs and workers that have it.
package brain

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

const (
	// readBatch is the number of blobs that are read at once, and writeBatch and writeBytes limit what is
	// written at once.
	readBatch  = 1000
	writeBatch = 1000
	writeBytes = 8 << 20
	// dropBatch is the number of blobs that are removed in a transaction.
	dropBatch = 5000
)

// Blob is what was extracted from a file.
type Blob struct {
	Key  [16]byte
	Data []byte
}

// Amount is a number of blobs and their size.
type Amount struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// Get calls f for those of the blobs that are stored, in any order, and records their use.
func Get(ctx context.Context, st *store.Store, keys [][16]byte, f func(Blob) error) error {
	for part := range slices.Chunk(keys, readBatch) {
		list := make([][]byte, len(part))
		for i := range part {
			list[i] = part[i][:]
		}
		rows, err := st.Queries().BrainBlobs(ctx, list)
		if err != nil {
			return dberr.Explain(err, "read %d extracts of files", len(part))
		}
		if len(rows) == 0 {
			continue
		}
		found := make([][]byte, len(rows))
		for i, row := range rows {
			found[i] = row.Key
			if len(row.Key) != len(Blob{}.Key) {
				continue
			}
			if err := f(Blob{Key: [16]byte(row.Key), Data: row.Data}); err != nil {
				return err
			}
		}
		// Writers lock rows in the same order, so that they cannot block each other.
		slices.SortFunc(found, bytes.Compare)
		if err := st.Queries().TouchBrainBlobs(ctx, found); err != nil {
			return dberr.Explain(err, "record the use of extracts of files")
		}
	}
	return nil
}

// Put stores blobs. Those that are stored already stay as they are.
func Put(ctx context.Context, st *store.Store, blobs []Blob) error {
	blobs = slices.Clone(blobs)
	slices.SortFunc(blobs, func(a, b Blob) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	var params db.KeepBrainBlobsParams
	size := 0
	flush := func() error {
		if len(params.Keys) == 0 {
			return nil
		}
		err := st.Queries().KeepBrainBlobs(ctx, params)
		params, size = db.KeepBrainBlobsParams{}, 0
		return dberr.Explain(err, "store extracts of files")
	}
	for i := range blobs {
		params.Keys, params.Data = append(params.Keys, blobs[i].Key[:]), append(params.Data, blobs[i].Data)
		if size += len(blobs[i].Data); len(params.Keys) == writeBatch || size >= writeBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// Expire removes the blobs that were not used for a time, and returns how much that was. A dry run only
// counts them.
func Expire(ctx context.Context, st *store.Store, age time.Duration, dry bool) (Amount, error) {
	if dry {
		row, err := st.ListQueries().UnusedBrainBlobs(ctx, age.Seconds())
		return Amount(row), dberr.Explain(err, "count unused extracts of files")
	}
	var sum Amount
	for {
		row, err := st.Queries().DropUnusedBrainBlobs(ctx, db.DropUnusedBrainBlobsParams{AgeSeconds: age.Seconds(), Most: dropBatch})
		if err != nil {
			return sum, dberr.Explain(err, "remove unused extracts of files")
		}
		sum.Count, sum.Bytes = sum.Count+row.Count, sum.Bytes+row.Bytes
		if row.Count < dropBatch {
			return sum, nil
		}
	}
}

// Stored returns the bytes that the blobs take on the database's disk.
func Stored(ctx context.Context, st *store.Store) (int64, error) {
	n, err := st.ListQueries().BrainBlobBytes(ctx)
	return n, dberr.Explain(err, "read the size of the extracts of files")
}
