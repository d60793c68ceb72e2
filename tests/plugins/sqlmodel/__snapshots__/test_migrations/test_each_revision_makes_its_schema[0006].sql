--- 
+++ 
@@ -253,10 +253,12 @@
 	host TEXT, 
 	registrar_session TEXT, 
 	registrar_host TEXT, 
-	registrar_home TEXT, 
+	registrar_home TEXT, blocked_by TEXT DEFAULT '[]' NOT NULL, 
 	PRIMARY KEY (task_id), 
 	CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'failed', 'cancelled'))
 );
+
+CREATE INDEX tasks_blocked ON tasks (task_id) WHERE blocked_by <> '[]';
 
 CREATE INDEX tasks_by_id ON tasks (status, task_id);
 
