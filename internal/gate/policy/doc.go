// Package policy decides what follows from a change and from what guards found in it. Policies are
// written in Rego and evaluated by the OPA library on an Input, which describes the change without
// the contents of its files. The result is a Verdict: allow, needs approval, or deny, with reasons.
//
// Policies come from three sources. A built-in bundle (default, strict or permissive) is always
// evaluated. The operator's policies, package operator, are evaluated with it: they may deny, ask
// for approval, waive findings or lower their severity. The policies of the repository's base
// commit, package repository, are hostile: a child process with resource limits evaluates them
// alone, without other policies, and only their reasons to deny or to ask are added. A repository
// therefore can make a verdict only stricter.
//
// Evaluation is a pure function of its input: policies have no built-in functions that use the
// network, the time, randomness or the environment.
package policy
