package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// PipelineEntries returns the blackboard, section by section in the order of first writing: the
// newest version of each entry, or every version; if full is set, Head is the whole text.
func (s *Store) PipelineEntries(ctx context.Context, id int64, every, full bool) ([]contract.Entry, error) {
	rows, err := s.q.PipelineEntries(ctx, db.PipelineEntriesParams{PipelineID: id, EveryVersion: every})
	if err != nil {
		return nil, dberr.Explain(err, "read the blackboard of pipeline %d", id)
	}
	entries, err := rowconv.ConvertAll(rows, rowconv.Decode[contract.Entry])
	if err != nil {
		return nil, err
	}
	sections := contract.Sections()
	slices.SortStableFunc(entries, func(a, b contract.Entry) int {
		if d := slices.Index(sections, a.Section) - slices.Index(sections, b.Section); d != 0 {
			return d
		}
		return cmp.Compare(a.Place, b.Place)
	})
	return entries, s.resolveAll(ctx, id, full, len(entries), func(i int) *contract.Text { return &entries[i].Value })
}

// PipelineMessages returns messages after a number, in order, at most limit of them (default and
// maximum 1000); if full is set, Head is the whole text.
func (s *Store) PipelineMessages(ctx context.Context, id int64, after, limit int, full bool) ([]contract.Message, error) {
	rows, err := s.q.PipelineMessages(ctx, db.PipelineMessagesParams{PipelineID: id, AfterSeq: int32(after), Most: rowconv.Limit(limit, 1000)})
	return s.messagesOf(ctx, id, rows, err, full)
}

// PipelineLastMessages returns the last messages of each member, at most the given number of each
// (default contract.MessageTail), in the order in which they were accepted; if full is set, Head is
// the whole text.
func (s *Store) PipelineLastMessages(ctx context.Context, id int64, each int, full bool) ([]contract.Message, error) {
	rows, err := s.q.LastPipelineMessages(ctx, db.LastPipelineMessagesParams{
		PipelineID: id, Senders: rowconv.Convert(contract.Members(), func(m contract.Member) string { return string(m) }), Most: rowconv.Limit(each, contract.MessageTail),
	})
	return s.messagesOf(ctx, id, rows, err, full)
}

func (s *Store) messagesOf(ctx context.Context, id int64, rows []json.RawMessage, err error, full bool) ([]contract.Message, error) {
	if err != nil {
		return nil, dberr.Explain(err, "read the messages of pipeline %d", id)
	}
	messages, err := rowconv.ConvertAll(rows, rowconv.Decode[contract.Message])
	if err != nil {
		return nil, err
	}
	return messages, s.resolveAll(ctx, id, full, len(messages), func(i int) *contract.Text { return &messages[i].Text })
}

// PipelineVotes returns the votes that count, in the order in which they were cast; if full is set,
// Head is the whole text.
func (s *Store) PipelineVotes(ctx context.Context, id int64, full bool) ([]contract.Vote, error) {
	rows, err := s.q.PipelineVotes(ctx, id)
	if err != nil {
		return nil, dberr.Explain(err, "read the votes of pipeline %d", id)
	}
	votes, err := rowconv.ConvertAll(rows, rowconv.Decode[contract.Vote])
	if err != nil {
		return nil, err
	}
	return votes, s.resolveAll(ctx, id, full, len(votes), func(i int) *contract.Text { return &votes[i].Text })
}

// PipelineError is a refused move or signal, or an error recorded from outside.
type PipelineError struct {
	contract.Error
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
}

// PipelineErrors returns the refused moves and recorded errors of members, in order, at most 1000.
func (s *Store) PipelineErrors(ctx context.Context, id int64) ([]PipelineError, error) {
	rows, err := s.q.PipelineErrors(ctx, db.PipelineErrorsParams{PipelineID: id, Most: rowconv.Limit(0, 1000)})
	if err != nil {
		return nil, dberr.Explain(err, "read the errors of pipeline %d", id)
	}
	return rowconv.ConvertAll(rows, func(r db.PipelineErrorsRow) (PipelineError, error) {
		e, err := rowconv.Decode[contract.Error](r.Error)
		return PipelineError{Error: e, Number: r.ID, At: r.CreatedAt}, err
	})
}

// PipelineReport returns the report of a kind (checkpoint, partial, final), or ErrNotFound; if full
// is set, Head is the whole text.
func (s *Store) PipelineReport(ctx context.Context, id int64, kind string, full bool) (contract.DeliberationReport, error) {
	doc, err := s.q.PipelineReport(ctx, db.PipelineReportParams{PipelineID: id, Kind: kind})
	if err != nil {
		return contract.DeliberationReport{}, dberr.Or(err, dberr.NotFound("pipeline %d has no %s report", id, kind), "read the %s report of pipeline %d", kind, id)
	}
	report, err := rowconv.Decode[contract.DeliberationReport](doc)
	if err != nil || !full {
		return report, err
	}
	texts := report.Decision.Texts()
	for i := range report.Blackboard {
		texts = append(texts, &report.Blackboard[i].Value)
	}
	for i := range report.Votes {
		texts = append(texts, &report.Votes[i].Text)
	}
	return report, s.ResolvePipelineTexts(ctx, id, texts...)
}

// NewestReported returns the newest pipeline that has a report of a kind, or ErrNotFound.
func (s *Store) NewestReported(ctx context.Context, kind string) (int64, error) {
	id, err := s.q.NewestReport(ctx, kind)
	return id, dberr.Or(err, dberr.NotFound("no pipeline has a %s report yet", kind), "find the newest %s report", kind)
}

// PipelineText is a text that is too long for histories.
type PipelineText struct {
	Ref  string // digest of the text
	Text string
}

// SavePipelineTexts stores texts of a pipeline. A repeat is harmless.
func (s *Store) SavePipelineTexts(ctx context.Context, id int64, texts ...PipelineText) error {
	if len(texts) == 0 {
		return nil
	}
	err := s.q.SavePipelineTexts(ctx, db.SavePipelineTextsParams{
		PipelineID: id, Refs: rowconv.Convert(texts, func(t PipelineText) string { return t.Ref }),
		Texts: rowconv.Convert(texts, func(t PipelineText) string { return rowconv.Text(t.Text) }),
	})
	return dberr.Explain(err, "store the text of pipeline %d", id)
}

// PipelineTexts returns texts of a pipeline, or of one that it recovers, by their refs. Texts that
// do not exist are omitted.
func (s *Store) PipelineTexts(ctx context.Context, id int64, refs []string) (map[string]string, error) {
	rows, err := s.q.PipelineTexts(ctx, db.PipelineTextsParams{PipelineID: id, Refs: NotNil(refs)})
	if err != nil {
		return nil, dberr.Explain(err, "read the text of pipeline %d", id)
	}
	texts := make(map[string]string, len(rows))
	for _, r := range rows {
		texts[r.Ref] = r.Text
	}
	return texts, nil
}

// ResolvePipelineTexts replaces the Head of each text with the whole text.
func (s *Store) ResolvePipelineTexts(ctx context.Context, id int64, texts ...*contract.Text) error {
	var refs []string
	for _, t := range texts {
		if t.Ref != "" {
			refs = append(refs, t.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	whole, err := s.PipelineTexts(ctx, id, refs)
	if err != nil {
		return err
	}
	for _, t := range texts {
		if found, ok := whole[t.Ref]; ok {
			t.Head = found
		}
	}
	return nil
}

func (s *Store) resolveAll(ctx context.Context, id int64, full bool, n int, at func(int) *contract.Text) error {
	if !full {
		return nil
	}
	texts := make([]*contract.Text, n)
	for i := range texts {
		texts[i] = at(i)
	}
	return s.ResolvePipelineTexts(ctx, id, texts...)
}
