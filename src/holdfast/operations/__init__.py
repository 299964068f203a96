"""Every operation, described once: what is asked, what comes back, and how both travel.

    class GetSchedule(Operation[Schedule], get="/v1/schedules/{schedule_id}"):
        \"\"\"Returns a schedule; raises `ScheduleNotFound`.\"\"\"

        schedule_id: str

The class is the signature of the embedded door (`does`) and of both clients (`method`), the
argument of who does it, the request on the wire (`forms`), and what `/openapi.json` says. A module
for each topic; what takes several requests is code, in the client.
"""
