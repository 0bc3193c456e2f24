// Package oracle proves the product end to end on real commits. An oracle run clones a public
// repository at the parent of a commit, gives the product the commit's subject as its goal, and
// uses a scripted model that reproduces the commit's diff exactly. The run must be done at the end,
// with the commit's own tests passed and the commit's own tree on the released branch. The model
// makes no mistakes, so every failure is the product's fault: its environment, its checks or its
// policies.
package oracle
