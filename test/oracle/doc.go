// Package oracle proves the product end to end on real commits. An oracle run
// clones a public repository at the parent of a commit, gives the product the
// commit's subject as its goal, and lets a scripted model answer with exactly
// the commit's own diff. The run has to end done, with the commit's own tests
// passed and the commit's own tree on the released branch. The model makes no
// mistakes, so every failure is the product's: its environment, its checks or
// its policies.
package oracle
