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

	Embeddings BrainEmbeddings `yaml:"embeddings" doc:"A model whose embeddings also find files, besides words and history."`
	Rerank     BrainRerank     `yaml:"rerank" doc:"A model that orders the first results of searches again."`
}

// BrainEmbeddings configures the embeddings of files and questions.
type BrainEmbeddings struct {
	Provider   string        `yaml:"provider" doc:"Name of a provider. Empty: models.default.provider."`
	Model      string        `yaml:"model" doc:"The provider's name for a model with the capability embeddings. Parts of the files of indexed repositories, and questions about them, are sent to it. Another model computes all embeddings again. Empty: none."`
	Dimensions int           `yaml:"dimensions" validate:"min=0,max=8192" doc:"Length of the vectors. Not every model accepts another one than its own. 0: the model's default."`
	MaxTexts   int           `yaml:"max_texts" validate:"min=0" doc:"Maximum number of texts, of about 400 bytes, that are embedded when a repository is indexed. The next indexing continues. 0: no limit."`
	MaxSize    Size          `yaml:"max_size" validate:"min=0" doc:"Maximum size of these texts. 0: no limit."`
	MaxCostUSD MicroUSD      `yaml:"max_cost_usd" validate:"min=0" doc:"Maximum cost of these texts, in US dollars. It is checked after each 100 files. The budgets of the project, the tenant and the day apply as well. 0: no limit."`
	MaxTime    time.Duration `yaml:"max_time" validate:"min=0,max=24h" doc:"Maximum time in which embeddings are computed when a repository is indexed. 0: no limit."`
	Wait       time.Duration `yaml:"wait" validate:"min=10ms,max=1m" doc:"How long a search waits for the embedding of its question. After that, it does without."`
}

// BrainRerank configures the model that orders the results of searches again.
type BrainRerank struct {
	Provider   string        `yaml:"provider" doc:"Name of a provider. Empty: models.default.provider."`
	Model      string        `yaml:"model" doc:"The provider's name for a model that responds with text. The question of each search, and parts of the first files that it finds, are sent to it; the search waits for it. Empty: none."`
	Files      int           `yaml:"files" validate:"min=2,max=100" doc:"Number of found files that the model orders. An answer shows as many of them as it would without the model."`
	Excerpt    Size          `yaml:"excerpt" validate:"min=100,max=8192" doc:"Size of the text of each of these files that is sent: the parts that match best."`
	MaxCostUSD MicroUSD      `yaml:"max_cost_usd" validate:"min=0" doc:"Maximum cost of one search, in US dollars. If the call could cost more, as estimated with one token for each byte, it is not made. The budgets of the project, the tenant and the day apply as well. 0: no limit."`
	Wait       time.Duration `yaml:"wait" validate:"min=10ms,max=1m" doc:"How long a search waits for the order. After that, the files stay in the order in which they were found."`
}
