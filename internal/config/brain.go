package config

import "time"

// Brain configures the index of repositories.
type Brain struct {
	MaxFile      Size          `yaml:"max_file" validate:"min=1024,max=16777216" doc:"Size of the largest file to index. Larger ones are not searched."`
	Disk         Size          `yaml:"disk" validate:"min=1048576" doc:"Maximum size of the indexes on each host. Those that were not used for the longest time are removed first, and made again when they are needed."`
	History      int           `yaml:"history" validate:"min=0,max=100000" doc:"Number of past commits from which a search learns which files change for which reasons and together. They are fetched if necessary. 0: none."`
	Workers      int           `yaml:"workers" validate:"min=0,max=256" doc:"Number of files that are read at the same time when a repository is indexed. 0: one for each processor."`
	MapTokens    int           `yaml:"map_tokens" validate:"min=0,max=20000" doc:"Size, in tokens, of the map of the repository in agents' prompts: the files that seem to matter for the goal, with the signatures of what they define. It is part of each request of a conversation. 0: prompts list files or directories instead. At least 100 otherwise."`
	AnswerTokens int           `yaml:"answer_tokens" validate:"min=200,max=32000" doc:"Maximum number of tokens in the answer to an agent's question (the tool ask_brain). Each later turn of the agent sends it again."`
	Wait         time.Duration `yaml:"wait" validate:"min=0,max=10m" doc:"How long a prompt or an agent's question waits for an index that is being made. After that, the prompt lists files or directories instead, and the agent is advised to search."`
	PrepareTime  time.Duration `yaml:"prepare_time" validate:"min=1s,max=6h" doc:"Maximum time in which a worker indexes the base commit of a run in the background, from the run's start. What was indexed by then is kept."`
	Age          time.Duration `yaml:"age" validate:"min=1h,max=87600h" doc:"How long what was extracted from a file stays in the database after its last use."`
}
