package feed

import (
	"cmp"
	"context"
	"slices"
)

// The first page is small; later ones have as many events as fit into pageBytes,
// judging by the size of the page before. Events beyond that are dropped and read
// again, so a slow follower holds one page in memory.
const (
	firstPage = 8
	maxPage   = 200
	pageBytes = 256 << 10
)

// pager reads events page by page.
type pager struct {
	source
	most int
	full bool // the last page was full: there may be more
}

func (p *pager) next(ctx context.Context, after Cursor) ([]Event, error) {
	p.most = cmp.Or(p.most, firstPage)
	events, err := p.read(ctx, after, p.most)
	p.full = err == nil && len(events) == p.most
	if len(events) == 0 {
		return nil, err
	}
	p.most = max(1, min(maxPage, pageBytes*len(events)/sizeOf(events)))
	for n, bytes := 1, sizeOf(events[:1]); n < len(events); n++ {
		if bytes += sizeOf(events[n : n+1]); bytes > pageBytes {
			p.full = true
			return slices.Clone(events[:n]), err // the rest can go
		}
	}
	return events, err
}

// sizeOf returns the approximate memory use of events.
func sizeOf(events []Event) (bytes int) {
	const each = 256 // for the event besides its payload
	for _, e := range events {
		bytes += each + len(e.Payload)
	}
	return bytes
}
