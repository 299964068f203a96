const answer = await fetch("session");
document.getElementById("app").textContent = answer.ok ? "Signed in." : "Signed out.";
