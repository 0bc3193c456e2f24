package pgcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// identity is the identity that the server runs as. PostgreSQL refuses to run as root, so for root
// it is a user namespace in which the server appears as an ordinary user or, if user namespaces are
// unavailable, the account of an unprivileged user.
type identity struct {
	namespace bool
	account   *syscall.Credential
}

// noUser is the server's user ID inside its user namespace.
const noUser = 65534

// unprivileged returns the identity that the server of a cluster in a directory runs as.
func unprivileged(dir string) (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	if namespaceWorks() {
		return identity{namespace: true}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if account, ok := credential(name); ok && reachable(dir, account) {
			return identity{account: account}, nil
		}
	}
	return identity{}, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"PostgreSQL refuses to run as root, user namespaces are disabled, and neither user postgres nor user nobody can access %s; "+
			"run as an ordinary user, or choose a data folder that other users can traverse", dir)
}

// apply sets the identity of a process that is about to start.
func (i identity) apply(attr *syscall.SysProcAttr) {
	switch {
	case i.namespace:
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: noUser, HostID: 0, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: noUser, HostID: 0, Size: 1}}
	case i.account != nil:
		attr.Credential = i.account
	}
}

// chown changes the owner of files to the identity.
func (i identity) chown(files ...string) error {
	if i.account == nil {
		return nil
	}
	for _, f := range files {
		if err := os.Chown(f, int(i.account.Uid), int(i.account.Gid)); err != nil {
			return fmt.Errorf("change the owner of %s to the server's user: %w", f, err)
		}
	}
	return nil
}

// namespaceWorks reports whether user namespaces can be created; containers often forbid them.
func namespaceWorks() bool {
	cmd := exec.CommandContext(context.Background(), "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	identity{namespace: true}.apply(cmd.SysProcAttr)
	return cmd.Run() == nil
}

func credential(name string) (*syscall.Credential, bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, false
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err1 == nil && err2 == nil
}

// reachable reports whether a user can traverse every directory above dir.
func reachable(dir string, who *syscall.Credential) bool {
	for d := filepath.Dir(dir); d != "/"; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			continue // does not exist yet, so we will create it
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || (info.Mode().Perm()&0o001 == 0 && st.Uid != who.Uid) {
			return false
		}
	}
	return true
}
