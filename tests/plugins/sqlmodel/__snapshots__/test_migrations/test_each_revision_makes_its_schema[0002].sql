--- 
+++ 
@@ -86,6 +86,20 @@
 	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
 	FOREIGN KEY(run_id) REFERENCES runs (run_id)
 );
+
+CREATE TRIGGER ledger_copied AFTER INSERT ON ledger BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'made ' || row.path, row.path, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task'), NULL FROM ledger AS row WHERE true AND row.rowid = new.rowid; END;
+
+CREATE TABLE message_places (id INTEGER PRIMARY KEY, task INTEGER);
+
+CREATE VIRTUAL TABLE message_words USING fts5(content, content='task_messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0);
+
+CREATE TABLE 'message_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;
+
+CREATE VIRTUAL TABLE message_words_counts USING fts5vocab('message_words', 'row');
+
+CREATE TABLE 'message_words_data'(id INTEGER PRIMARY KEY, block BLOB);
+
+CREATE TABLE 'message_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
 
 CREATE TABLE runs (
 	run_id TEXT NOT NULL, 
@@ -151,6 +165,12 @@
 
 CREATE INDEX runs_rarer ON runs (state) WHERE state <> 'completed';
 
+CREATE TRIGGER message_words_added AFTER INSERT ON task_messages BEGIN INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;
+
+CREATE TRIGGER message_words_changed AFTER UPDATE OF content ON task_messages BEGIN INSERT INTO message_words(message_words, rowid, content) VALUES ('delete', old.id, old.content); INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;
+
+CREATE TRIGGER message_words_removed AFTER DELETE ON task_messages BEGIN INSERT INTO message_words(message_words, rowid, content) VALUES ('delete', old.id, old.content); END;
+
 CREATE TABLE task_messages (
 	id INTEGER NOT NULL, 
 	task_id TEXT NOT NULL, 
@@ -166,6 +186,10 @@
 
 CREATE INDEX task_messages_by_task ON task_messages (task_id, id);
 
+CREATE TRIGGER task_messages_copied AFTER INSERT ON task_messages BEGIN INSERT INTO message_places SELECT row.id, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task') FROM task_messages AS row WHERE row.msg_type <> 'stuck' AND row.rowid = new.rowid; END;
+
+CREATE TRIGGER task_messages_removed AFTER DELETE ON task_messages BEGIN DELETE FROM message_places WHERE id = old.id; END;
+
 CREATE TABLE task_plan_revisions (
 	id INTEGER NOT NULL, 
 	task_id TEXT NOT NULL, 
@@ -180,6 +204,30 @@
 );
 
 CREATE INDEX task_plan_revisions_by_task ON task_plan_revisions (task_id, id);
+
+CREATE TRIGGER task_plan_revisions_copied AFTER INSERT ON task_plan_revisions BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'plan ' || row.id, row.old_plan_json, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task'), NULL FROM task_plan_revisions AS row WHERE true AND row.rowid = new.rowid; END;
+
+CREATE TABLE task_texts (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, part TEXT NOT NULL, text TEXT NOT NULL, task INTEGER, home TEXT, UNIQUE (task_id, part));
+
+CREATE TRIGGER task_words_added AFTER INSERT ON task_texts BEGIN INSERT INTO task_words(rowid, text) VALUES (new.id, new.text); END;
+
+CREATE TRIGGER task_words_changed AFTER UPDATE OF text ON task_texts BEGIN INSERT INTO task_words(task_words, rowid, text) VALUES ('delete', old.id, old.text); INSERT INTO task_words(rowid, text) VALUES (new.id, new.text); END;
+
+CREATE TRIGGER task_words_removed AFTER DELETE ON task_texts BEGIN INSERT INTO task_words(task_words, rowid, text) VALUES ('delete', old.id, old.text); END;
+
+CREATE INDEX tasks_served ON task_texts (id, task_id, home, task) WHERE task IS NULL;
+
+CREATE INDEX text_places ON task_texts (id, task);
+
+CREATE VIRTUAL TABLE task_words USING fts5(text, content='task_texts', content_rowid='id', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0);
+
+CREATE TABLE 'task_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;
+
+CREATE VIRTUAL TABLE task_words_counts USING fts5vocab('task_words', 'row');
+
+CREATE TABLE 'task_words_data'(id INTEGER PRIMARY KEY, block BLOB);
+
+CREATE TABLE 'task_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
 
 CREATE TABLE tasks (
 	task_id TEXT NOT NULL, 
@@ -216,6 +264,10 @@
 
 CREATE INDEX tasks_by_update ON tasks (updated_at, task_id);
 
+CREATE TRIGGER tasks_copied AFTER INSERT ON tasks BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'task', row.name || ' ' || row.plan || ' ' || coalesce(row.original_request, ''), NULL, CASE WHEN row.implicit THEN '' ELSE row.home END FROM tasks AS row WHERE true AND row.rowid = new.rowid; END;
+
+CREATE TRIGGER tasks_home_changed AFTER UPDATE OF home, implicit ON tasks WHEN new.home IS NOT old.home OR new.implicit <> old.implicit BEGIN UPDATE task_texts SET home = CASE WHEN new.implicit THEN '' ELSE new.home END WHERE task_id = new.task_id AND part = 'task'; END;
+
 CREATE INDEX tasks_implicit ON tasks (updated_at, task_id) WHERE implicit;
 
 CREATE INDEX tasks_of_session ON tasks (session_key, status, updated_at, task_id) WHERE session_key IS NOT NULL;
@@ -225,6 +277,10 @@
 CREATE INDEX tasks_stuck_due ON tasks (status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;
 
 CREATE INDEX tasks_stuck_due_at_home ON tasks (home, status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;
+
+CREATE TRIGGER tasks_text_changed AFTER UPDATE OF name, plan, original_request ON tasks WHEN new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') <> old.name || ' ' || old.plan || ' ' || coalesce(old.original_request, '') BEGIN UPDATE task_texts SET text = new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') WHERE task_id = new.task_id AND part = 'task'; END;
+
+CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks BEGIN DELETE FROM task_texts WHERE task_id = old.task_id; END;
 
 CREATE TABLE waits (
 	wait_id TEXT NOT NULL, 
