package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/migrations"
)

// PostgreSQL checks that PostgreSQL can be started.
func PostgreSQL() Check {
	return Check{Name: "postgresql", Run: func(ctx context.Context) []Result {
		if bin := pgcluster.Installed(ctx); bin != "" {
			return append(Passed("server programs found in %s; rgpt dev starts a private cluster", bin), account(ctx, os.Geteuid())...)
		}
		return Warned("PostgreSQL is not installed; rgpt dev would download it", "apt-get install postgresql, or set DATABASE_URL")
	}}
}

// noUser is the user that a cluster started by root runs as; see package pgcluster.
const noUser = 65534

// account checks that the user of a private cluster has a name on this host: initdb rejects a user
// without one, as in containers with an arbitrary user id.
func account(ctx context.Context, uid int) []Result {
	uid = cmp.Or(uid, noUser)
	err := exec.CommandContext(ctx, "getent", "passwd", strconv.Itoa(uid)).Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 { // 2 means that the user does not exist; otherwise the user exists, or this cannot be determined
		return nil
	}
	return []Result{{
		Status: Fail, Message: fmt.Sprintf("user ID %d has no entry in /etc/passwd, so initdb cannot create the private cluster", uid),
		Remedy: fmt.Sprintf("echo 'rgpt:x:%d:%d::/tmp:/bin/sh' >> /etc/passwd, or set DATABASE_URL", uid, uid),
	}}
}

// Database checks that the database responds and has the schema version of this binary.
func Database(url string) Check {
	return Check{Name: "database", Run: func(ctx context.Context) []Result {
		have, err := store.SchemaVersion(ctx, url)
		if err != nil {
			return FailedBy(err, "start PostgreSQL (rgpt dev --detach includes one), or correct DATABASE_URL")
		}
		switch want := migrations.Latest(); {
		case have < want:
			return Failed(fmt.Sprintf("the database has schema version %d, but this version of rgpt requires %d", have, want), "rgpt migrate")
		case have > want:
			return Failed(fmt.Sprintf("the database has schema version %d, newer than the version that this rgpt requires (%d)", have, want), "use a newer version of rgpt")
		default:
			return Passed("reachable, schema version %d", have)
		}
	}}
}

const (
	clockWarn = 2 * time.Second
	clockFail = time.Minute
)

// Clock compares this machine's clock with the database's. Deadlines, daily budgets and
// the order of events depend on both.
func Clock(url string) Check {
	return Check{Name: "clock", Run: func(ctx context.Context) []Result {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return Warned("not compared with the database clock: the database is unreachable", "fix the database first")
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		var theirs time.Time
		before := time.Now()
		if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
			return Warned("not compared with the database clock: "+err.Error(), "fix the database first")
		}
		took := time.Since(before)
		return judgeClock(theirs.Sub(before.Add(took/2)).Abs(), took)
	}}
}

// judgeClock judges a clock difference, measured with an error of at most half the duration of the
// query.
func judgeClock(difference, took time.Duration) []Result {
	text := fmt.Sprintf("differs from the database clock by %s", difference.Round(time.Millisecond))
	remedy := "synchronise the clocks of both machines (NTP: timedatectl set-ntp true)"
	switch sure := difference - took/2; {
	case sure > clockFail:
		return Failed(text, remedy)
	case sure > clockWarn:
		return Warned(text, remedy)
	}
	return Passed("matches the database clock")
}
