# What the built-in bundles share. The operator's policies may use it too.
package rgpt.lib

# final: the change leaves the run now. At other stages, what would need an approval is only
# recorded, so that the run can ask once, for the whole change.
final if input.stage in {"release", "check"}

# reason makes a reason of a finding.
reason(f) := {
	"id": f.id, "text": f.message, "guard": f.guard, "rule": f.rule, "path": f.path, "line": f.line,
}

# escapes: the change could reach files outside of the repository, or git's own files.
escapes(f) if {
	f.guard == "rewrite"
	f.rule in {"link-outside", "link-protected", "unsafe-path"}
}

# deletes: the change deletes more files than allowed.
deletes(f) if {
	f.guard == "rewrite"
	f.rule in {"deletions", "mass-deletion"}
}

# outside: the configuration does not allow the path.
outside(f) if {
	f.guard == "rewrite"
	f.rule == "outside"
}

# beyond: the change has more bytes than the limits allow, or more files than can be examined.
beyond(f) if {
	f.guard == "rewrite"
	f.rule in {"file-size", "size", "unread"}
}

# protected: the change affects what runs with other people's permissions.
protected(f) if {
	f.guard == "rewrite"
	f.rule == "protected"
}

protected(f) if f.guard == "workflow"

# invented: a registry does not have a dependency, or not this version of it.
invented(f) if {
	f.guard == "dependencies"
	f.rule in {"not-found", "no-version"}
}

# unaged: it is not known how old a dependency is, or the change itself adds the package for which it is
# taken, so that it may be one that nobody looked up.
unaged(f) if {
	f.guard == "dependencies"
	f.rule in {"age-unknown", "local"}
	f.severity in {"major", "medium"}
}

# labelled: the run has one of these labels.
labelled(names) if {
	some l in input.labels
	l in names
}

# blocked: a label forbids the release.
blocked(f) if {
	f.guard == "labels"
	f.rule == "blocked"
}

# unreadable: the guard could not examine the change.
unreadable(f) if f.rule in {"unreadable", "unexamined", "unread-file", "workflow-unread"}
