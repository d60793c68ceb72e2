"""The only room that knows pluggy: loading, calling and outliving plug-ins."""
