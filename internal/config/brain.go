package config

import "time"

// Brain configures the index of repositories.
type Brain struct {
	MaxFile Size          `yaml:"max_file" validate:"min=1024,max=16777216" doc:"Size of the largest file to index. Larger ones are not searched."`
	Disk    Size          `yaml:"disk" validate:"min=1048576" doc:"Maximum size of the indexes on each host. Those that were not used for the longest time are removed first, and made again when they are needed."`
	History int           `yaml:"history" validate:"min=0,max=100000" doc:"Number of past commits from which a search learns which files change for which reasons and together. They are fetched if necessary. 0: none."`
	Workers int           `yaml:"workers" validate:"min=0,max=256" doc:"Number of files that are read at the same time when a repository is indexed. 0: one for each processor."`
	Answer  int           `yaml:"answer" validate:"min=200,max=32000" doc:"Maximum number of tokens in the answer to an agent's question (the tool ask_brain). Each later turn of the agent sends it again."`
	Age     time.Duration `yaml:"age" validate:"min=1h,max=87600h" doc:"How long what was extracted from a file stays in the database after its last use."`
}
