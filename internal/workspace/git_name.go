package workspace

import "strings"

// IsGitName reports whether some file system would treat a name as .git: in any case, with embedded
// characters that macOS ignores, with trailing dots, spaces or stream names that Windows ignores,
// or as the short name git~1. Nothing with such a name belongs to a workspace.
func IsGitName(name string) bool { return isHFSGit(name) || isNTFSGit(name) }

// isHFSGit follows git's own is_hfs_dotgit.
func isHFSGit(name string) bool {
	visible := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	return strings.EqualFold(visible, ".git") && len(visible) == len(".git")
}

// isNTFSGit follows git's own is_ntfs_dotgit.
func isNTFSGit(name string) bool {
	lower := strings.ToLower(name)
	rest, ok := strings.CutPrefix(lower, ".git")
	if !ok {
		rest, ok = strings.CutPrefix(lower, "git~1")
	}
	if !ok {
		return false
	}
	for _, c := range []byte(rest) {
		switch c {
		case '.', ' ':
		case ':', '\\':
			return true
		default:
			return false
		}
	}
	return true
}
