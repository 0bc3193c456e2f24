package setup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/trust"
)

// ownerFile is a file in a data folder that is also in the user's list of trusted files. It shows
// that the current user created the folder at this location. A folder .rgpt from an archive or a
// clone may refer to another user's programs and addresses.
const ownerFile = "owner"

// DefaultDataDir returns the data folder: RGPT_DATA_DIR, else .rgpt in the current directory if it
// exists, else .rgpt in the home directory if it exists, else .rgpt in the current directory. A
// data folder in the current directory that this user neither created (ClaimDataDir) nor trusted is
// rejected.
func DefaultDataDir() (string, error) {
	if dir := os.Getenv(DataDir); dir != "" {
		return filepath.Abs(dir)
	}
	here, err := filepath.Abs(defaultName)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	if _, err := os.Lstat(here); err == nil {
		if err := checkOwner(here); err != nil {
			return "", err
		}
	}
	if isDir(here) {
		return here, nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		if dir := filepath.Join(home, defaultName); isDir(dir) {
			return dir, nil
		}
	}
	return here, nil
}

// checkOwner rejects a data folder that git tracks or that another user created.
func checkOwner(dir string) error {
	tracked, err := trust.Tracked(dir)
	switch {
	case err != nil:
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig,
			"the data folder %s is not used because its owner cannot be verified; choose another one with --data-dir or RGPT_DATA_DIR", dir)
	case tracked:
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"git tracks files in the data folder %s, so it comes from the repository and is not used. Choose another one with --data-dir or RGPT_DATA_DIR, or remove it from the repository", dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return nil // an empty folder is harmless
	}
	if os.Getenv("HOME") == "" && os.Getenv("XDG_CONFIG_HOME") == "" {
		return nil // without a home directory, as in many services, owners cannot be recorded
	}
	owner := filepath.Join(dir, ownerFile)
	if content, err := os.ReadFile(owner); err == nil && trust.Default(os.Getenv).Trusts(owner, content) {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"the data folder %s is not used because you did not create it here: it may come from someone else. If it is yours, run `rgpt trust %s`; otherwise choose another one with --data-dir or RGPT_DATA_DIR", dir, dir)
}

// defaultName is the name of a data folder that commands find automatically. Others are
// chosen explicitly, so they need no owner.
const defaultName = ".rgpt"

// ClaimDataDir creates a data folder and, if commands may find it automatically, records this user
// as its creator. An existing folder that is not empty does not change.
func ClaimDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot create the data folder %s", dir)
	}
	if !IsDataDir(dir) {
		return nil
	}
	// If this fails, the user must specify the folder from now on; the next command explains that.
	_ = TrustDataDir(trust.Default(os.Getenv), dir)
	return nil
}

// TrustDataDir records in a user's list that a data folder belongs to this user.
func TrustDataDir(list trust.List, dir string) error {
	owner := filepath.Join(dir, ownerFile)
	// An existing file, even a link to elsewhere, is replaced instead of followed.
	if err := os.Remove(owner); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record the owner of the data folder: %w", err)
	}
	file, err := os.OpenFile(owner, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = file.WriteString(rand.Text() + "\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("record the owner of the data folder: %w", err)
	}
	return list.Add(owner)
}

// OwnerFile returns the file that marks a data folder as owned by a user.
func OwnerFile(dir string) string { return filepath.Join(dir, ownerFile) }

// IsDataDir reports whether a directory has the name of a data folder.
func IsDataDir(dir string) bool {
	abs, err := filepath.Abs(dir)
	return err == nil && filepath.Base(abs) == defaultName && isDir(abs)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
