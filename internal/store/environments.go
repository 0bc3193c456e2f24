package store

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Environment is an environment from its row.
type Environment struct {
	Digest      string          `json:"digest"`
	Repo        string          `json:"repo"`
	BaseCommit  string          `json:"base_commit"`
	Source      string          `json:"source"` // detected, configured, agent, person
	Recipe      json.RawMessage `json:"recipe"`
	Archive     string          `json:"archive"` // digest of the artifact
	ArchiveSize int64           `json:"archive_size"`
	Bytes       int64           `json:"bytes"` // on disk, unpacked
	Files       int64           `json:"files"`
	DurationMS  int64           `json:"duration_ms"`
	RunID       int64           `json:"run_id,omitempty"` // that created it
	CreatedAt   time.Time       `json:"created_at"`
	UsedAt      time.Time       `json:"used_at"`
}

// Environment returns an environment, or ErrNotFound, and records that it is used.
func (s *Store) Environment(ctx context.Context, digest string) (Environment, error) {
	row, err := s.q.Environment(ctx, digest)
	return environmentOf(row), dberr.Explain(err, "read environment %s", digest)
}

// Environments returns environments, last used first: those of one repository, or all
// if repo is empty.
func (s *Store) Environments(ctx context.Context, repo string, limit int) ([]Environment, error) {
	rows, err := s.lists.ListEnvironments(ctx, db.ListEnvironmentsParams{Repo: rowconv.Optional(repo), Most: rowconv.Limit(limit, 50)})
	return rowconv.Convert(rows, environmentOf), dberr.Explain(err, "list environments")
}

// SaveEnvironment stores an environment. If a digest has several archives, the last one counts.
func (s *Store) SaveEnvironment(ctx context.Context, e Environment) error {
	recipe, err := rowconv.Document(e.Recipe)
	if err != nil {
		return err
	}
	return dberr.Explain(s.q.SaveEnvironment(ctx, db.SaveEnvironmentParams{
		Digest: e.Digest, Repo: rowconv.Text(e.Repo), BaseCommit: e.BaseCommit, Source: e.Source, Recipe: recipe, Archive: e.Archive,
		ArchiveSize: e.ArchiveSize, Bytes: e.Bytes, Files: e.Files, DurationMs: e.DurationMS, RunID: rowconv.Optional(e.RunID),
	}), "store environment %s", e.Digest)
}

// RemoveEnvironment removes an environment and the baselines that ran in it. It returns the
// artifact of its archive, which is no longer referenced; empty if the environment did not exist. by is
// who removes it.
func (s *Store) RemoveEnvironment(ctx context.Context, digest, by string) (archive string, err error) {
	if _, err := s.q.DropBaselinesOf(ctx, digest); err != nil {
		return "", dberr.Explain(err, "remove the baselines of environment %s", digest)
	}
	var archives []string
	err = s.actingAs(ctx, by, func(q *db.Queries) (err error) {
		archives, err = q.RemoveEnvironment(ctx, digest)
		return err
	})
	if err != nil || len(archives) == 0 {
		return "", dberr.Explain(err, "remove environment %s", digest)
	}
	return archives[0], nil
}

// RemoveUnusedEnvironments removes at most 1,000 environments that no run has started to use within
// age and that no unfinished run needs, and the baselines that ran in them. It returns the
// artifacts of their archives, which are no longer referenced.
func (s *Store) RemoveUnusedEnvironments(ctx context.Context, age time.Duration) (archives []string, err error) {
	rows, err := s.q.RemoveUnusedEnvironments(ctx, db.RemoveUnusedEnvironmentsParams{Age: age.Seconds(), Most: 1000})
	if err != nil {
		return nil, dberr.Explain(err, "remove unused environments")
	}
	for _, row := range rows {
		archives = append(archives, row.Archive)
		if _, failed := s.q.DropBaselinesOf(ctx, row.Digest); failed != nil {
			err = errors.Join(err, dberr.Explain(failed, "remove the baselines of environment %s", row.Digest))
		}
	}
	return archives, err
}

// EnvironmentsInUse returns the environments of unfinished runs.
func (s *Store) EnvironmentsInUse(ctx context.Context) ([]string, error) {
	digests, err := s.q.EnvironmentsInUse(ctx)
	return digests, dberr.Explain(err, "find environments in use")
}

var digestPrefix = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// IsDigest reports whether a text is the digest of an environment or the
// beginning of one, at least six digits.
func IsDigest(text string) bool { return digestPrefix.MatchString(text) }

// FindEnvironment returns the environment whose digest equals, or begins with, a text. It returns
// ErrNotFound if there is none, and an error if several digests begin with the text. The lookup
// does not count as a use.
func (s *Store) FindEnvironment(ctx context.Context, digest string) (Environment, error) {
	if !IsDigest(digest) {
		return Environment{}, noEnvironment(digest)
	}
	rows, err := s.q.EnvironmentsBegin(ctx, db.EnvironmentsBeginParams{Prefix: digest, Most: 2})
	if err != nil {
		return Environment{}, dberr.Explain(err, "find environment %s", digest)
	}
	if len(rows) == 0 {
		return Environment{}, noEnvironment(digest)
	}
	if len(rows) > 1 && rows[0].Digest != digest {
		return Environment{}, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "several environment digests begin with %s; use a longer prefix", digest)
	}
	return environmentOf(rows[0]), nil
}

func noEnvironment(digest string) error {
	return dberr.NotFound("environment %.64s not found; see rgpt env list", digest)
}

func environmentOf(r db.Environment) Environment {
	return Environment{
		Digest: r.Digest, Repo: r.Repo, BaseCommit: r.BaseCommit, Source: r.Source, Recipe: r.Recipe, Archive: r.Archive, ArchiveSize: r.ArchiveSize,
		Bytes: r.Bytes, Files: r.Files, DurationMS: r.DurationMs, RunID: rowconv.Deref(r.RunID), CreatedAt: r.CreatedAt, UsedAt: r.UsedAt,
	}
}

// Setup describes how to set up a repository whose files do not specify it.
type Setup struct {
	ID        int64           `json:"id"`
	Repo      string          `json:"repo"`
	Source    string          `json:"source"` // agent, person
	Settings  json.RawMessage `json:"settings"`
	Reason    string          `json:"reason,omitempty"`
	Proven    bool            `json:"proven"` // whether the repository uses it; otherwise only its run tries it
	RunID     int64           `json:"run_id,omitempty"`
	CreatedBy string          `json:"created_by,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	RevokedAt *time.Time      `json:"revoked_at,omitempty"`
	RevokedBy string          `json:"revoked_by,omitempty"`
}

// AddSetup stores a setup. A person's setup applies to its repository immediately, an agent's setup
// once it is proven.
func (s *Store) AddSetup(ctx context.Context, n Setup) (Setup, error) {
	settings, err := rowconv.Document(n.Settings)
	if err != nil {
		return Setup{}, err
	}
	row, err := s.q.AddSetup(ctx, db.AddSetupParams{
		Repo: rowconv.Text(n.Repo), Source: n.Source, Settings: settings, Reason: rowconv.Text(telemetry.Redact(n.Reason)), RunID: rowconv.Optional(n.RunID), CreatedBy: rowconv.Text(telemetry.Redact(n.CreatedBy)),
		Proven: n.Source != "agent",
	})
	return setupOf(row), dberr.Explain(err, "store the setup of %s", n.Repo)
}

// SetupOf returns the setup that a repository uses, or ErrNotFound.
func (s *Store) SetupOf(ctx context.Context, repo string) (Setup, error) {
	row, err := s.q.SetupOf(ctx, rowconv.Text(repo))
	return setupOf(row), dberr.Explain(err, "read the setup of %s", repo)
}

// SetupByID returns a setup, even a revoked one, or ErrNotFound.
func (s *Store) SetupByID(ctx context.Context, id int64) (Setup, error) {
	row, err := s.q.SetupByID(ctx, id)
	return setupOf(row), dberr.Explain(err, "read setup %d", id)
}

// Setups returns setups, newest first: those of one repository, or all if repo is empty.
func (s *Store) Setups(ctx context.Context, repo string, limit int) ([]Setup, error) {
	rows, err := s.lists.ListSetups(ctx, db.ListSetupsParams{Repo: rowconv.Optional(repo), Most: rowconv.Limit(limit, 50)})
	return rowconv.Convert(rows, setupOf), dberr.Explain(err, "list setups")
}

// RevokeSetup revokes a setup, and reports whether it was valid until now.
func (s *Store) RevokeSetup(ctx context.Context, id int64, by string) (bool, error) {
	n, err := s.q.RevokeSetup(ctx, db.RevokeSetupParams{ID: id, RevokedBy: rowconv.Text(telemetry.Redact(by))})
	return n > 0, dberr.Explain(err, "revoke setup %d", id)
}

// ProveSetup makes a repository use a setup, and reports whether it was allowed to.
func (s *Store) ProveSetup(ctx context.Context, id int64) (bool, error) {
	n, err := s.q.ProveSetup(ctx, id)
	return n > 0, dberr.Explain(err, "record that setup %d works", id)
}

// SetRunSetup records which setup a run tries; 0 means none.
func (s *Store) SetRunSetup(ctx context.Context, runID, setupID int64) error {
	n, err := s.q.SetRunSetup(ctx, db.SetRunSetupParams{SetupID: rowconv.Optional(setupID), RunID: runID})
	if err == nil && n == 0 {
		return dberr.NoRun(runID)
	}
	return dberr.Explain(err, "record the setup of run %d", runID)
}

func setupOf(r db.Setup) Setup {
	return Setup{
		ID: r.ID, Repo: r.Repo, Source: r.Source, Settings: r.Settings, Reason: r.Reason, Proven: r.Proven, RunID: rowconv.Deref(r.RunID),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, RevokedAt: r.RevokedAt, RevokedBy: r.RevokedBy,
	}
}

// SetRunEnvironment records which environment a run's base commit has, and which setup
// created it; 0 means the repository's files.
func (s *Store) SetRunEnvironment(ctx context.Context, runID int64, digest string, setupID int64) error {
	n, err := s.q.SetRunEnvironment(ctx, db.SetRunEnvironmentParams{Environment: digest, SetupID: rowconv.Optional(setupID), RunID: runID})
	if err == nil && n == 0 {
		return dberr.NoRun(runID)
	}
	return dberr.Explain(err, "record the environment of run %d", runID)
}

// Baseline is the results of a project's checks on a base commit.
type Baseline struct {
	Key         string             `json:"key"`
	Repo        string             `json:"repo"`
	BaseCommit  string             `json:"base_commit"`
	Tree        string             `json:"tree"`
	Environment string             `json:"environment,omitempty"`
	Stages      [][]contract.Check `json:"stages"`
	Commands    map[string]string  `json:"commands"`         // by check
	RunID       int64              `json:"run_id,omitempty"` // that began it
	CreatedAt   time.Time          `json:"created_at"`
	Checks      []BaselineCheck    `json:"checks"` // those that have a result
}

// BaselineCheck is the outcome of one check on a base commit.
type BaselineCheck struct {
	Result    contract.CheckResult `json:"result"`
	Cases     []contract.TestCase  `json:"cases"`
	Findings  []contract.Finding   `json:"findings"`
	LogDigest string               `json:"log_digest,omitempty"`
	CreatedAt time.Time            `json:"created_at"`
}

// Check returns the outcome of a check.
func (b *Baseline) Check(id string) (BaselineCheck, bool) {
	for _, c := range b.Checks {
		if c.Result.Check.ID == id {
			return c, true
		}
	}
	return BaselineCheck{}, false
}

// OpenBaseline begins a baseline, or finds the one with its key, links it to the run,
// and returns it with the existing results.
func (s *Store) OpenBaseline(ctx context.Context, runID int64, b Baseline) (Baseline, error) {
	found, err := s.Baseline(ctx, b.Key)
	if errors.Is(err, ErrNotFound) {
		if err := s.insertBaseline(ctx, runID, b); err != nil {
			return Baseline{}, err
		}
		found, err = s.Baseline(ctx, b.Key)
	}
	if err != nil {
		return Baseline{}, err
	}
	if runID != 0 {
		if _, err := s.q.SetRunBaseline(ctx, db.SetRunBaselineParams{Baseline: b.Key, RunID: runID}); err != nil {
			return Baseline{}, dberr.Explain(err, "record the baseline of run %d", runID)
		}
	}
	return found, nil
}

// insertBaseline inserts a baseline unless there is one with its key.
func (s *Store) insertBaseline(ctx context.Context, runID int64, b Baseline) error {
	stages, err := rowconv.Encode(b.Stages)
	if err != nil {
		return err
	}
	commands, err := rowconv.Encode(b.Commands)
	if err != nil {
		return err
	}
	err = s.q.InsertBaseline(ctx, db.InsertBaselineParams{
		Key: b.Key, Repo: rowconv.Text(b.Repo), BaseCommit: b.BaseCommit, Tree: b.Tree, Environment: b.Environment, Stages: stages, Commands: commands, RunID: rowconv.Optional(runID),
	})
	return dberr.Explain(err, "start the baseline for %s", b.BaseCommit)
}

// Baseline returns a baseline with the existing results, or ErrNotFound. It may be kept in memory from an earlier call,
// if nothing about it has changed since. Callers may change its lists and its map, but nothing that it points to.
func (s *Store) Baseline(ctx context.Context, key string) (Baseline, error) {
	known, kept := s.baselines.of(key)
	if kept {
		version, err := s.q.BaselineVersion(ctx, key)
		if err != nil {
			return Baseline{}, dberr.Explain(err, "read baseline %s", key)
		}
		if version == known.version {
			return known.clone(), nil
		}
	}
	var row db.Baseline
	var checks []db.BaselineCheck
	// The version comes first: if the baseline changes in between, the version is older than what is kept under it, and
	// does not match again.
	err := readTogether(ctx, s.reads,
		func(q *db.Queries) (err error) { known.version, err = q.BaselineVersion(ctx, key); return err },
		func(q *db.Queries) (err error) { row, err = q.Baseline(ctx, key); return err },
		func(q *db.Queries) (err error) { checks, err = q.BaselineChecks(ctx, key); return err },
	)
	if err != nil {
		return Baseline{}, dberr.Explain(err, "read baseline %s", key)
	}
	if known.Baseline, err = baselineOf(row, checks); err != nil {
		return Baseline{}, err
	}
	known.size = sizeOf(row, checks)
	s.baselines.keep(known)
	return known.clone(), nil
}

func baselineOf(row db.Baseline, checks []db.BaselineCheck) (Baseline, error) {
	out := Baseline{
		Key: row.Key, Repo: row.Repo, BaseCommit: row.BaseCommit, Tree: row.Tree, Environment: row.Environment, RunID: rowconv.Deref(row.RunID), CreatedAt: row.CreatedAt,
	}
	var err error
	if out.Stages, err = rowconv.Decode[[][]contract.Check](row.Stages); err != nil {
		return out, err
	}
	if out.Commands, err = rowconv.Decode[map[string]string](row.Commands); err != nil {
		return out, err
	}
	for _, c := range checks {
		check := BaselineCheck{LogDigest: c.LogDigest, CreatedAt: c.CreatedAt}
		if check.Result, err = rowconv.Decode[contract.CheckResult](c.Result); err != nil {
			return out, err
		}
		if check.Cases, err = rowconv.Decode[[]contract.TestCase](c.Cases); err != nil {
			return out, err
		}
		if check.Findings, err = rowconv.Decode[[]contract.Finding](c.Findings); err != nil {
			return out, err
		}
		out.Checks = append(out.Checks, check)
	}
	return out, nil
}

// SaveBaselineCheck stores the outcome of a check on a base commit.
func (s *Store) SaveBaselineCheck(ctx context.Context, key string, c BaselineCheck) error {
	p := db.SaveBaselineCheckParams{Key: key, CheckID: rowconv.Text(c.Result.Check.ID), LogDigest: c.LogDigest}
	var err error
	if p.Result, err = rowconv.Encode(c.Result); err != nil {
		return err
	}
	if p.Cases, err = rowconv.Encode(NotNil(c.Cases)); err != nil {
		return err
	}
	if p.Findings, err = rowconv.Encode(NotNil(c.Findings)); err != nil {
		return err
	}
	return dberr.Explain(s.q.SaveBaselineCheck(ctx, p), "store check %s of baseline %s", c.Result.Check.ID, key)
}
