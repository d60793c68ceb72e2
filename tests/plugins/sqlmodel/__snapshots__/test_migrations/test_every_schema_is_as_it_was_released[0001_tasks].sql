CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE bookmarks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE events (
	id INTEGER NOT NULL, 
	at TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	task_id TEXT, 
	wait_id TEXT, 
	run_id TEXT, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX events_by_task ON events (task_id, id);

CREATE TABLE task_messages (
	id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	msg_type TEXT NOT NULL, 
	content TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT role_is_known CHECK (role IN ('agent', 'system', 'user')), 
	CONSTRAINT msg_type_is_known CHECK (msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX task_messages_by_task ON task_messages (task_id, id);

CREATE TABLE task_plan_revisions (
	id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	old_plan_json TEXT NOT NULL, 
	new_plan_json TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	author TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT author_is_known CHECK (author IN ('agent', 'system')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX task_plan_revisions_by_task ON task_plan_revisions (task_id, id);

CREATE TABLE tasks (
	task_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	status TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	done TEXT NOT NULL, 
	metadata TEXT NOT NULL, 
	session_key TEXT, 
	message_count INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (task_id), 
	CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'failed', 'cancelled'))
);

CREATE INDEX tasks_by_id ON tasks (status, task_id);

CREATE INDEX tasks_by_status ON tasks (status, updated_at, task_id);

CREATE INDEX tasks_by_update ON tasks (updated_at, task_id);
